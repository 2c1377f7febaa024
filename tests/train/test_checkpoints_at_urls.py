"""Real training that saves at a URL: it goes on there with nothing else left, and no stale writer is ever read."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.train.reports.event_file import follow, load_run
from elastane.train.reports.events import Event, Resized, Saved, Started
from elastane.train.worker.checkpoint_store import open_checkpoint_store
from train.running import PATIENCE_S, SCRIPTS, alone, processes_of

EPOCHS = 4


def command(run: Path, place: str, workers: int, out: Path, *more: str) -> list[str]:
    words = [sys.executable, "-m", "elastane", "train", "--run", str(run), "--mode=consistent"]
    words += [f"--workers={workers}", f"--checkpoints={place}", str(SCRIPTS / "hashed.py"), str(out)]
    return [*words, f"--epochs={EPOCHS}", *more]


def await_saves(run: Path, number: int) -> None:
    """Until so many checkpoints have been told of."""
    patience = threading.Event()
    give_up = threading.Timer(PATIENCE_S, patience.set)
    give_up.start()
    journal = run / "events.jsonl"
    while not journal.exists() and not patience.wait(0.05):
        pass
    for event in follow(journal, patience):
        number -= isinstance(event, Saved)
        if not number:
            break
    give_up.cancel()
    assert not number, f"{run} ended too early"


@contextlib.contextmanager
def left_behind(run: Path) -> Iterator[None]:
    """Whatever is still there at the end is ended."""
    try:
        yield
    finally:
        for pid in processes_of(run):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("survivors", [False, True], ids=["all are killed", "its workers train on, cut off"])
def test_with_run_and_plan_log_lost_a_job_goes_on_from_its_url_to_the_same_bits(
    tmp_path: Path, survivors: bool
) -> None:
    plain, elastic, place = tmp_path / "plain", tmp_path / "elastic", tmp_path / "elsewhere" / "place"
    first, second = tmp_path / "first", tmp_path / "second"
    alone("hashed.py", tmp_path / "alone", str(plain), f"--epochs={EPOCHS}", mode="consistent")
    with left_behind(first):
        started = subprocess.Popen(
            command(first, f"file://{place}", 2, tmp_path / "of the first", "--pause=0.1"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await_saves(first, 3)
        os.kill(started.pid, signal.SIGKILL)
        started.wait()
        for pid in () if survivors else processes_of(first):
            os.kill(pid, signal.SIGKILL)
        assert not (first / "checkpoints").exists()
        done = subprocess.run(
            command(second, f"file://{place}", 3, elastic),
            capture_output=True,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, done.stderr.decode()
        assert elastic.read_text() == plain.read_text()
    events = load_run(second)
    assert resumed_at(events) > 0
    assert next(event.generation for event in events if isinstance(event, Resized)) > 1000
    store = open_checkpoint_store(tmp_path / "another", {"ELASTANE_CHECKPOINTS": str(place)})
    last = store.load()
    assert last is not None
    assert last.generation > 1000
    assert last.step == max(event.step for event in events if isinstance(event, Saved))


def resumed_at(events: list[Event]) -> int:
    return next(event.step for event in events if isinstance(event, Resized))


def test_where_it_saves_is_told_with_how_to_go_on_and_nowhere_in_events(tmp_path: Path) -> None:
    run, place = tmp_path / "run", tmp_path / "place"
    process = subprocess.Popen(
        command(run, str(place), 1, tmp_path / "out", "--pause=0.1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    with left_behind(run):
        await_saves(run, 1)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=PATIENCE_S)
    assert f"--checkpoints={place}" in " ".join(text.decode().split())
    events = load_run(run)
    assert any(isinstance(event, Started) for event in events)
    assert not any(str(place) in repr(event) for event in events)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("relative/place", "error: --checkpoints: got 'relative/place'; expected a URL (s3://bucket/prefix"),
        ("s3://me:secret@bucket/x", "error: --checkpoints: got 's3://…@bucket/x'; expected a URL without a"),
    ],
)
def test_a_place_that_is_none_is_refused_before_anything_runs(tmp_path: Path, place: str, words: str) -> None:
    done = subprocess.run(command(tmp_path / "run", place, 1, tmp_path / "out"), capture_output=True, text=True)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.split())
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_to_ends_the_job_with_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    words = command(tmp_path / "run", str(tmp_path / "file"), 1, tmp_path / "out")
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 1
    assert f"cannot claim {tmp_path / 'file'}: " in " ".join(done.stderr.split())
