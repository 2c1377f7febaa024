"""Where logs lie and how they are read: a run's folder or a file, once or while it grows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from elastane.errors import ElastaneError
from elastane.predict.eta.lines import Lines, Record, record_of

_NAMES = ("events.jsonl", "log.jsonl", "metrics.jsonl", "metrics.csv", "trainer_state.json")
_CHUNK = 1 << 20


def find_log(path: Path) -> Path:
    """The log itself, or the one in a folder."""
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
    """HF Trainer's states in ``checkpoint-N`` folders, by time of writing."""
    return sorted(folder.glob("checkpoint-*/trainer_state.json"), key=lambda path: path.stat().st_mtime)


def records(path: Path) -> Iterator[Record]:
    """All records of a log as it is now."""
    log = find_log(path)
    if log.name == "trainer_state.json":
        yield from _states(log)
        return
    lines = Lines()
    with log.open(encoding="utf-8", errors="replace") as file:
        while text := file.read(_CHUNK):
            yield from lines.feed(text)


def follow(path: Path, wait: Callable[[], bool], now: Callable[[], float]) -> Iterator[Record | None]:
    """Records as they are written, None whenever there is nothing new; ``wait`` says whether to go on.

    Lines without a time of their own get that of their arrival, once the log has been read to its end.
    """
    log, lines, position, live = find_log(path), Lines(), 0, False
    while True:
        size = log.stat().st_size if log.exists() else 0
        if size < position:  # the file was rotated or written anew
            position, lines = 0, Lines()
        with log.open(encoding="utf-8", errors="replace") as file:
            file.seek(position)
            text = file.read(_CHUNK)
            position = file.tell()
        for record in lines.feed(text):
            yield _stamped(record, now()) if live else record
        if text:
            continue
        live = True
        yield None
        if not wait():
            return


def _stamped(record: Record, now_s: float) -> Record:
    return record if record.at_s is not None else replace(record, at_s=now_s)


def _states(latest: Path) -> Iterator[Record]:
    """HF Trainer keeps no times, but its checkpoints have been written at some: their files tell."""
    folder = latest.parent.parent if latest.parent.name.startswith("checkpoint-") else latest.parent
    for path in checkpoints(folder) or [latest]:
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue  # being written
        if isinstance(state, dict):
            # Only checkpoints have a time that belongs to their step.
            timed = path.parent.name.startswith("checkpoint-")
            yield replace(record_of(state), at_s=path.stat().st_mtime if timed else None)
