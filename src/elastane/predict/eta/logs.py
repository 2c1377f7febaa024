"""Finds and reads logs: a run's folder or a file, once or while it grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastane.errors import ElastaneError
from elastane.predict.eta.log_parsers import Lines, Record, record_of
from elastane.predict.eta.tail import Tail
from elastane.textfiles import read_json

_NAMES = (
    "events.jsonl",
    "log.jsonl",
    "metrics.jsonl",
    "trainer_log.jsonl",
    "metrics.csv",
    "trainer_state.json",
)
_STATE = "trainer_state.json"


def find_log(path: Path) -> Path:
    """Returns the log itself, or the one in a folder."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise ElastaneError(f"there is no log {path}")
    for name in _NAMES:
        if (path / name).is_file():
            return path / name
    states = checkpoints(path)
    if states:
        return states[-1]
    raise ElastaneError(
        f"there is no log in {path}; it should hold one of {', '.join(_NAMES)} or HF checkpoints"
    )


def checkpoints(folder: Path) -> list[Path]:
    """Returns HF Trainer's states in ``checkpoint-N`` folders, by time of writing."""
    return sorted(folder.glob(f"checkpoint-*/{_STATE}"), key=lambda path: path.stat().st_mtime)


def records(path: Path) -> Iterator[Record]:
    """Yields all records of a log as it is now."""
    log = find_log(path)
    if log.name == _STATE:
        for state in _states_of(log):
            yield from _state(state)
        return
    lines, tail, any_at_all = Lines(), Tail(log), False
    while text := tail.read():
        for record in lines.feed(text):
            any_at_all = True
            yield record
    if lines.skipped and not any_at_all:
        raise ElastaneError(
            f"{log} is no log: none of its lines is a JSON object or a row of a table with steps"
        )


def follow(path: Path, wait: Callable[[], bool], now: Callable[[], float]) -> Iterator[Record | None]:
    """Yields records as they are written, None whenever there is nothing new; ``wait`` says whether to go on."""
    log = find_log(path)
    for fresh in _fresh_states(log) if log.name == _STATE else _fresh_lines(log, now):
        yield from fresh
        if not fresh:
            yield None
            if not wait():
                return


def _fresh_lines(log: Path, now: Callable[[], float]) -> Iterator[list[Record]]:
    """Yields the records written since the last look, again and again.

    Lines without a time of their own get that of their arrival, once the log has been read to its end.  Lightning
    writes its file anew for every new column, so only steps that are new have just arrived.
    """
    lines, tail, live, newest = Lines(), Tail(log), False, (-1, False)
    while True:
        text = tail.read()
        if tail.anew:
            lines = Lines()
        fresh = list(lines.feed(text))
        places = [(-1 if each.step is None else each.step, each.validation) for each in fresh]
        # Of lines that arrive together only the last arrived when it was written.
        if live and fresh and fresh[-1].at_s is None and places[-1] > newest:
            fresh[-1] = replace(fresh[-1], at_s=now())
        newest = max(newest, *places) if places else newest
        if text and not fresh:
            continue
        live = live or not text
        yield fresh


def _fresh_states(log: Path) -> Iterator[list[Record]]:
    seen: set[tuple[Path, float]] = set()
    while True:
        found = [(path, path.stat().st_mtime) for path in _states_of(log) if path.exists()]
        yield [record for each in found if each not in seen for record in _state(each[0])]
        seen.update(found)


def _states_of(log: Path) -> list[Path]:
    folder = log.parent.parent if log.parent.name.startswith("checkpoint-") else log.parent
    return checkpoints(folder) or [log]


def _state(path: Path) -> list[Record]:
    """Reads a state of HF Trainer, which has no times: a checkpoint gets that of its file."""
    try:
        state = read_json(path)
    except (OSError, ElastaneError):
        return []  # being written, or just removed
    if not isinstance(state, dict):
        return []
    # Only checkpoints have a time that belongs to their step.
    timed = path.parent.name.startswith("checkpoint-")
    last = replace(record_of(state), at_s=path.stat().st_mtime if timed else None)
    return [*_validations(state.get("log_history")), last]


def _validations(history: Any) -> list[Record]:
    rows = [each for each in history if isinstance(each, dict)] if isinstance(history, list) else []
    return [replace(found, at_s=None) for found in map(record_of, rows) if found.validation]
