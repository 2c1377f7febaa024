"""Out of memory in a real step: parts are halved for all workers, nothing is lost, and the result is the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.reports.events import Limited
from train.running import Outcome, alone, train

pytestmark = pytest.mark.slow


def steps_of(folder: Path) -> dict[int, set[tuple[str, int]]]:
    """Parts that were computed in each step: worker and samples."""
    found: dict[int, set[tuple[str, int]]] = {}
    for path in folder.glob("steps-*.txt"):
        for line in path.read_text().splitlines():
            step, samples, _rank = map(int, line.split())
            found.setdefault(step, set()).add((path.stem, samples))
    return found


def halvings(outcome: Outcome) -> list[tuple[int, int]]:
    return [(event.before, event.after) for event in outcome.events if isinstance(event, Limited)]


def same_as_alone(folder: Path, *words: str) -> None:
    (folder / "plain").mkdir()
    plain = folder / "plain" / "result"
    alone("hungry.py", folder / "plain" / "run", str(plain), *words)
    for mine, other in zip(torch.load(folder / "result"), torch.load(plain), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("error", ["device", "host"])
@pytest.mark.parametrize("workers", [1, 3])
def test_parts_are_halved_until_they_fit_and_no_step_is_lost(tmp_path: Path, workers: int, error: str) -> None:
    """There is no checkpoint but the one of whoever ran out of memory, and all do in the same step."""
    result = tmp_path / "result"
    words = [str(result), "--fits=6", "--after=30", f"--error={error}"]
    outcome = train("hungry.py", tmp_path / "run", *words, workers=workers)
    assert outcome.ended.outcome == "finished", outcome.printed[-20:]
    assert outcome.ended.step == 80
    most = -(-32 // workers)
    assert halvings(outcome) == [(32, 16), (16, 8), (8, 4)] if workers == 1 else [(most, most // 2)]
    done = steps_of(tmp_path)
    assert sorted(done) == list(range(1, 81))
    assert max(samples for step in range(31, 81) for _, samples in done[step]) <= 6
    if workers == 1:  # each step was made by one process only
        assert all(len({worker for worker, _ in parts}) == 1 for parts in done.values())
    same_as_alone(tmp_path)


def test_one_worker_alone_runs_out_and_the_others_go_on_at_once(tmp_path: Path) -> None:
    """The limit travels in the plan after the death, and newcomers hear it in theirs."""
    outcome = train(
        "hungry.py",
        tmp_path / "run",
        str(tmp_path / "result"),
        "--fits=10",
        "--after=30",
        "--epochs=12",
        workers=2,
        wishes=(Wish(60, "resize", 3, steps=True),),
    )
    assert outcome.ended.outcome == "finished", outcome.printed[-20:]
    assert halvings(outcome) == [(16, 8)]
    plans = [json.loads(line) for line in (outcome.run / "plans.jsonl").read_text().splitlines()]
    limits = [entry["samples"] for entry in plans if entry["type"] == "limit"]
    assert limits == [8]
    carried = [entry["plan"]["most"] for entry in plans if entry["type"] == "plan"]
    assert carried == sorted(carried)
    assert carried[-1] == 8
    same_as_alone(tmp_path, "--epochs=12")


def test_a_later_run_in_the_same_folder_knows_the_limit(tmp_path: Path) -> None:
    words = ["--fits=20", "--after=5"]
    first = train("hungry.py", tmp_path / "run", str(tmp_path / "result"), *words)
    assert halvings(first) == [(32, 16)]
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.rename(tmp_path / path.name)
    again = train("hungry.py", tmp_path / "run", str(tmp_path / "result"), *words)
    assert again.ended.outcome == "finished"
    assert halvings(again) == [(32, 16)]  # of the first run
    assert len(again.lost) == 1


@pytest.mark.parametrize("more", ["--accumulate=4", "--two"])
def test_accumulated_batches_and_several_optimizers(tmp_path: Path, more: str) -> None:
    words = ["--fits=9", "--after=6", more]
    outcome = train("hungry.py", tmp_path / "run", str(tmp_path / "result"), *words, workers=2)
    assert outcome.ended.outcome == "finished", outcome.printed[-20:]
    assert {after for _, after in halvings(outcome)} <= {8, 16}
    assert halvings(outcome)
    same_as_alone(tmp_path, more)


def test_adaptive_batches_stay_below_what_ran_out(tmp_path: Path) -> None:
    words = ["--fits=20", "--after=5", "--epochs=20", "--max-batch=256"]
    outcome = train("hungry.py", tmp_path / "run", str(tmp_path / "result"), *words, workers=1, mode="adaptive")
    assert outcome.ended.outcome == "finished", outcome.printed[-20:]
    assert halvings(outcome)
    late = [samples for step, parts in steps_of(tmp_path).items() if step > 10 for _, samples in parts]
    assert max(late) <= 20


def test_consistent_mode_says_in_one_line_what_to_do(tmp_path: Path) -> None:
    words = ["--fits=3", "--after=5"]
    outcome = train(
        "hungry.py", tmp_path / "run", str(tmp_path / "result"), *words, workers=2, mode="consistent"
    )
    assert outcome.ended.outcome == "failed"
    assert "consistent mode has parts of a fixed size" in outcome.ended.cause
    assert "virtual=N" in outcome.ended.cause
    assert "max_per_worker" not in outcome.ended.cause
    assert len(outcome.lost) <= 2  # both members run out in the same step


def test_a_single_sample_that_does_not_fit_ends_the_job_in_one_line(tmp_path: Path) -> None:
    words = ["--fits=-1", "--after=5"]
    outcome = train("hungry.py", tmp_path / "run", str(tmp_path / "result"), *words)
    assert outcome.ended.outcome == "failed"
    assert "out of memory with a single sample on w6: there is nothing left to halve" in outcome.ended.cause
    assert [after for _, after in halvings(outcome)] == [16, 8, 4, 2, 1]


def test_memory_that_runs_out_elsewhere_halves_nothing(tmp_path: Path) -> None:
    words = ["--fits=1", "--error=evaluation"]
    outcome = train("hungry.py", tmp_path / "run", str(tmp_path / "result"), *words)
    assert outcome.ended.outcome == "failed"
    assert halvings(outcome) == []
