"""Whole jobs on pretend GPUs send gradients ahead, lose a worker in a backward pass, and lose a communicator."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.reports.events import Diverged, Warned
from elastane.train.transport_choice import TransportWish
from train.devices.pretend import Machine, alone, train
from train.devices.test_system import ON_DEVICE, finished, same_bits_alone
from train.running import SCRIPTS, numbers

AHEAD = SCRIPTS / "ahead.py"


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize("transport", [TransportWish.STAGED, TransportWish.NCCL])
@pytest.mark.parametrize("policy", ["late", "thread"])
def test_a_death_in_a_backward_pass(tmp_path: Path, policy: str, transport: TransportWish) -> None:
    out = tmp_path / "out"
    outcome = train(
        AHEAD,
        tmp_path / "run",
        str(out),
        "--dies=w2:9",
        machine=Machine(3, policy),
        wishes=(Wish(3, "resize", 3, steps=True), Wish(200, "resize", 1, steps=True, settled=True)),
        mode="fixed",
        transport=transport,
    )
    finished(outcome)
    assert [lost.worker for lost in outcome.lost] == ["w2"]
    assert not [event for event in outcome.events if isinstance(event, Diverged)]
    found = numbers(out)
    assert found[1] > 0
    alone(AHEAD, tmp_path / "cpu", str(tmp_path / "alone"), f"--epochs={int(found[0])}", mode="fixed")
    assert found[2:] == pytest.approx(numbers(tmp_path / "alone")[2:], rel=1e-2, abs=1e-3)


@pytest.mark.slow
@pytest.mark.devices
def test_a_communicator_that_breaks_behind_its_making_leaves_the_job_staged(tmp_path: Path) -> None:
    result = tmp_path / "result"
    outcome = train(
        ON_DEVICE,
        tmp_path / "run",
        str(result),
        machine=Machine(2, variables={"FAKEGPU_FAULTS": "breaks_in_connect"}),
        workers=2,
        wishes=(Wish(40, "kill", steps=True, settled=True),),
        transport=TransportWish.NCCL,
    )
    finished(outcome)
    told = [event.text for event in outcome.events if isinstance(event, Warned)]
    assert any("unhandled system error" in text for text in told), told
    same_bits_alone(ON_DEVICE, result, tmp_path / "cpu")
