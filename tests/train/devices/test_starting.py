"""Every worker has a pretend GPU of its own; a fork server that has touched one does not fork."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.reports.events import Warned
from train.devices.pretend import HERE, Machine, train
from train.running import Outcome

SEES = HERE / "scripts" / "sees.py"


def seen(outcome: Outcome) -> list[str]:
    return sorted(line for line in outcome.printed if line.startswith("sees"))


@pytest.mark.slow
@pytest.mark.devices
def test_each_worker_is_forked_and_sees_one_device_of_its_own(tmp_path: Path) -> None:
    outcome = train(SEES, tmp_path / "run", "train", machine=Machine(2), workers=2, mode="fixed")
    assert outcome.ended.outcome == "finished", outcome.ended
    assert seen(outcome) == ["sees fake:0 1 forked", "sees fake:1 1 forked"]
    assert not [event for event in outcome.events if isinstance(event, Warned)]


@pytest.mark.slow
@pytest.mark.devices
def test_a_preload_that_initialises_the_device_makes_starts_cold_and_is_named(tmp_path: Path) -> None:
    machine = Machine(2)
    preload = ("json", "touches_device")
    outcome = train(SEES, tmp_path / "run", "train", machine=machine, workers=2, mode="fixed", preload=preload)
    assert outcome.ended.outcome == "finished", outcome.ended
    assert seen(outcome) == ["sees fake:0 1 cold", "sees fake:1 1 cold"]
    told = "the module 'touches_device' of --preload has initialised fakegpu: workers start cold"
    assert [told in event.text for event in outcome.events if isinstance(event, Warned)] == [True]
    assert told in (outcome.run / "logs" / "nursery.log").read_text()
