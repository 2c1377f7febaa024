"""Real workers send gradients ahead: through resizes, a death in a backward pass, and ways that scripts have."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.reports.events import Diverged
from train.running import Outcome, alone, numbers, train

SCRIPT = "ahead.py"


def same_as_alone(outcome: Outcome, out: Path, *words: str) -> None:
    """All workers ended with the same bits, and with the numbers of one worker."""
    same_everywhere(outcome, out)
    found, other = numbers(out), out.parent / "alone"
    alone(SCRIPT, out.parent / "alone_run", str(other), f"--epochs={int(found[0])}", *words)
    assert found[2:] == pytest.approx(numbers(other)[2:], rel=1e-3, abs=1e-4)


def same_everywhere(outcome: Outcome, out: Path) -> None:
    """All workers ended with the same bits."""
    assert outcome.ended.outcome == "finished", (outcome.ended, outcome.printed[-20:])
    assert not [event for event in outcome.events if isinstance(event, Diverged)]
    assert len({path.read_text() for path in out.parent.glob(f"{out.name}.*.bits")}) == 1


@pytest.mark.slow
def test_through_resizes_and_a_death_in_a_backward_pass(tmp_path: Path) -> None:
    out = tmp_path / "out"
    wishes = (Wish(3, "resize", 3, steps=True), Wish(250, "resize", 1, steps=True, settled=True))
    outcome = train(SCRIPT, tmp_path / "run", str(out), "--pause=0.005", "--dies=w2:3", wishes=wishes)
    assert [lost.worker for lost in outcome.lost] == ["w2"]
    assert numbers(out)[1] > 0
    same_as_alone(outcome, out)


@pytest.mark.slow
@pytest.mark.parametrize("use", ["plain", "leaving", "meeting", "twice", "clamping"])
def test_ways_of_scripts(tmp_path: Path, use: str) -> None:
    """The bits are those of a job that sends nothing ahead."""
    words = ("--epochs=4", f"--use={use}")
    for name, more in (("out", ()), ("other", ("--behind",))):
        outcome = train(SCRIPT, tmp_path / name / "run", str(tmp_path / name / "out"), *words, *more, workers=2)
        same_everywhere(outcome, tmp_path / name / "out")
    bits = [(tmp_path / name / "out.0.bits").read_text() for name in ("out", "other")]
    assert bits[0] == bits[1]
    assert numbers(tmp_path / "out" / "out")[1] > (30 if use == "plain" else 5)
    assert numbers(tmp_path / "other" / "out")[1] == 0


@pytest.mark.slow
def test_only_the_last_of_several_parts_is_sent_ahead(tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = train(SCRIPT, tmp_path / "run", str(out), "--epochs=3", "--per-worker=6", workers=2)
    assert 20 < numbers(out)[1] <= 2 * 24
    same_as_alone(outcome, out, "--per-worker=6")
