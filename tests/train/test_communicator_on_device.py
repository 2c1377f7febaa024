"""A whole job over a pretend communicator: it is built while training goes on, and a death is survived without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.transport_choice import TransportWish
from train.on_device import pretend_gpus
from train.running import alone, train

pytestmark = [pytest.mark.slow, pytest.mark.devices]

WISHES = (
    Wish(60, "kill", steps=True, settled=True),
    Wish(0, "resize", 2, settled=True),
)


def test_a_job_changes_over_to_a_communicator_and_survives_a_death_with_the_bits_of_one_process(
    tmp_path: Path,
) -> None:
    environment = pretend_gpus(tmp_path)
    site = tmp_path / "site" / "sitecustomize.py"
    site.write_text(site.read_text() + "\nfrom fakegpu import as_nccl\nas_nccl.install()\n")
    result = tmp_path / "result"
    done = train(
        "on_device.py",
        tmp_path / "run",
        str(result),
        mode="consistent",
        settings=Settings(workers=3, transport=TransportWish.NCCL),
        wishes=WISHES,
        environment=environment,
    )
    assert done.ended.outcome == "finished", done.log()
    kinds = [change.kind for change in done.resized]
    assert kinds.index("rebuild") < kinds.index("recover"), kinds
    bits, epochs, where = result.read_text().split()
    assert where == "fakegpu"
    alone("on_device.py", tmp_path / "cpu", str(result), "--epochs", epochs, mode="consistent")
    assert result.read_text().split() == [bits, epochs, "cpu"]
