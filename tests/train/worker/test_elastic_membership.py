"""Elastic training end to end: real processes that come, go and are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.reports.event_file import follow
from elastane.train.reports.events import Diverged, Event, Resized, Saved, Stepped
from elastane.train.worker.checkpoint import FolderCheckpointStore
from train.running import SCRIPTS, alone, processes_of, train


def counts(path: Path) -> set[str]:
    return set(path.read_text().split())


def test_each_sample_is_used_once_per_pass_through_resizes_and_kills(tmp_path: Path) -> None:
    out = tmp_path / "counts"
    wishes = [
        Wish(5, "resize", 3, steps=True),
        Wish(0, "kill", settled=True),
        Wish(0, "kill-leader", settled=True),
        Wish(0, "resize", 1, settled=True),
    ]
    done = train("counting.py", tmp_path / "run", str(out), "--pause=0.005", wishes=wishes)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 2
    assert {"grow", "recover", "shrink"} <= {change.kind for change in done.resized}
    assert all(change.redone_steps <= 1 for change in done.resized)
    assert counts(out) == {"1"}
    assert processes_of(tmp_path / "run") == []


def test_consistent_mode_gives_the_same_bits_alone_and_through_kills_and_resizes(tmp_path: Path) -> None:
    plain, elastic = tmp_path / "plain", tmp_path / "elastic"
    arguments = ("--model=cnn", "--opt=adamw")
    wishes = [
        Wish(3, "resize", 3, steps=True),
        Wish(0, "kill", settled=True),
        Wish(0, "resize", 2, settled=True),
        Wish(0, "kill-leader", settled=True),
    ]
    done = train(
        "hashed.py",
        tmp_path / "run",
        str(elastic),
        *arguments,
        "--pause=0.01",
        workers=2,
        wishes=wishes,
        mode="consistent",
    )
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 2
    epochs = elastic.read_text().split()[1]
    alone("hashed.py", tmp_path / "alone", str(plain), *arguments, f"--epochs={epochs}", mode="consistent")
    assert elastic.read_text() == plain.read_text()


def test_adaptive_workers_stay_replicas_through_resizes_and_kills(tmp_path: Path) -> None:
    wishes = [
        Wish(5, "resize", 3, steps=True),
        Wish(0, "kill", settled=True),
        Wish(0, "resize", 2, settled=True),
        Wish(300, "resize", 2, steps=True),  # nothing new, but late enough for the noise to be known
    ]
    # Its SGD soon knows the 500 samples by heart; then noise drowns the gradient altogether, and has no finite value.
    arguments = (str(tmp_path / "out"), "--pause=0.005", "--opt=adamw")
    done = train("hashed.py", tmp_path / "run", *arguments, wishes=wishes, mode="adaptive")
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    assert not [event for event in done.events if isinstance(event, Diverged)]
    # Once all samples are known by heart the noise has no value any more: how soon that is, depends on the machine.
    after = [event for event in done.events if isinstance(event, Stepped) and event.at_s > done.lost[0].at_s]
    known = [event for event in after if event.noise is not None]
    assert known
    assert all(0.0 < event.efficiency <= 1.0 for event in known)  # type: ignore[operator]


def test_a_frozen_worker_is_fenced_and_replaced(tmp_path: Path) -> None:
    out = tmp_path / "counts"
    done = train(
        "counting.py",
        tmp_path / "run",
        str(out),
        "--pause=0.005",
        wishes=[Wish(10, "stop", steps=True)],
        settings=Settings(workers=2, lease_s=3.0),
    )
    assert done.ended.outcome == "finished", done.ended
    assert "no sign of life" in done.lost[0].cause
    assert counts(out) == {"1"}


def test_a_stopped_job_resumes_with_another_number_of_workers_and_the_same_bits(tmp_path: Path) -> None:
    plain, elastic = tmp_path / "plain", tmp_path / "elastic"
    arguments = ("--model=transformer", "--epochs=6")
    alone("hashed.py", tmp_path / "alone", str(plain), *arguments, mode="consistent")
    command = [sys.executable, "-m", "elastane", "train", "--run", str(tmp_path / "run"), "--mode=consistent"]
    script = [str(SCRIPTS / "hashed.py"), str(elastic), *arguments]
    first = subprocess.Popen(
        [*command, "--workers=2", *script, "--pause=0.05"], stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    await_event(tmp_path / "run", lambda event: isinstance(event, Stepped))
    first.send_signal(signal.SIGINT)
    _, text = first.communicate(timeout=60)
    assert first.returncode == 130, text.decode()
    assert not elastic.exists()
    saved = FolderCheckpointStore(tmp_path / "run" / "checkpoints").load()
    assert saved is not None
    said = " ".join(text.decode().split())
    assert f"It was saved at step {saved.step:,}; go on with: elastane train --run {tmp_path / 'run'} " in said
    assert f"stopped at step {saved.step:,} after" in said
    assert processes_of(tmp_path / "run") == []
    (tmp_path / "run" / "enough").touch()
    subprocess.run([*command, "--workers=3", *script], check=True, capture_output=True, timeout=200)
    assert elastic.read_text() == plain.read_text()


def test_training_goes_on_without_its_supervisor_and_a_new_one_takes_over(tmp_path: Path) -> None:
    out, run = tmp_path / "counts", tmp_path / "run"
    command = [sys.executable, "-m", "elastane", "train", "--run", str(run), "--workers=2"]
    script = [str(SCRIPTS / "counting.py"), str(out), "--pause=0.005"]
    first = subprocess.Popen([*command, *script], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    await_event(run, lambda event: isinstance(event, Stepped))
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert len(processes_of(run)) == 3  # two workers and their parent
    second = subprocess.Popen([*command, "--adopt", "--json", "--resize=3:0s", *script], stdout=subprocess.PIPE)
    await_event(run, lambda event: isinstance(event, Resized) and event.after == 3)
    (run / "enough").touch()
    summary = json.loads(second.communicate(timeout=200)[0])
    assert summary["ended"]["outcome"] == "finished"
    assert counts(out) == {"1"}
    assert processes_of(run) == []


def test_a_job_of_which_nothing_is_left_is_taken_over_from_its_checkpoint(tmp_path: Path) -> None:
    out, run = tmp_path / "counts", tmp_path / "run"
    command = [sys.executable, "-m", "elastane", "train", "--run", str(run), "--workers=1", "--lease=1"]
    script = [str(SCRIPTS / "counting.py"), str(out), "--pause=0.005"]
    first = subprocess.Popen([*command, *script], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    await_event(run, lambda event: isinstance(event, Saved))
    for pid in (first.pid, *processes_of(run)):
        os.kill(pid, signal.SIGKILL)
    first.wait()
    (run / "enough").touch()
    subprocess.run([*command, "--adopt", *script], check=True, capture_output=True, timeout=200)
    assert counts(out) == {"1"}
    assert processes_of(run) == []


def await_event(run: Path, wanted: Callable[[Event], bool]) -> None:
    """Wait until a run has told of such an event."""
    patience = threading.Event()
    give_up = threading.Timer(120.0, patience.set)
    give_up.start()
    journal = run / "events.jsonl"
    while not journal.exists() and not patience.wait(0.05):
        pass
    found = any(wanted(event) for event in follow(journal, patience))
    give_up.cancel()
    assert found


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("early_exit", "left the training loop early"),
        ("uneven", "torch.float32 where the others have 0.weight"),
        ("raises", "ValueError: no luck (mistakes.py"),
        ("large_batch", "batch_size 4096 is larger than the data set (128 samples)"),
        ("twice", "there are two loaders called 'data'"),
        ("random_op", "does not have a deterministic implementation"),
        ("no_step", "the loop body ended without opt.step()"),
    ],
)
def test_mistakes_end_the_job_with_a_clear_cause(tmp_path: Path, name: str, words: str) -> None:
    done = train("mistakes.py", tmp_path / "run", name, workers=2, mode="consistent")
    assert done.ended.outcome == "failed"
    assert words in done.ended.cause, done.ended.cause
    log = done.log("w1") + done.log("w2")
    assert words.split(" (")[0] in log
    assert processes_of(tmp_path / "run") == []


def test_resizes_report_where_the_pause_went(tmp_path: Path) -> None:
    out = tmp_path / "counts"
    wishes = [Wish(5, "resize", 2, steps=True), Wish(0, "resize", 1, settled=True)]
    done = train("counting.py", tmp_path / "run", str(out), "--pause=0.005", wishes=wishes)
    grown, shrunk = done.resized
    assert (grown.before, grown.after, grown.shadow) == (1, 2, True)
    assert (shrunk.before, shrunk.after) == (2, 1)
    assert set(grown.breakdown) == {"handover", "group", "state"}
    assert grown.pause_s == pytest.approx(sum(grown.breakdown.values()))
