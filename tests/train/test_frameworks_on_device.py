"""Trainers of other libraries train on the job's device: a few steps alone, with the bits of the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.on_device import pretend_gpus
from train.running import alone

pytestmark = [pytest.mark.slow, pytest.mark.devices]

SCRIPT = "frameworks_on_device.py"


@pytest.mark.parametrize("framework", ["hf", "lightning", "accelerate"])
def test_a_few_steps_give_the_bits_of_the_cpu(tmp_path: Path, framework: str) -> None:
    found = {}
    for where in ("fakegpu", "cpu"):
        environment = pretend_gpus(tmp_path) if where == "fakegpu" else {}
        alone(SCRIPT, tmp_path / where, framework, where, environment={"FAKEGPU_COUNT": "0", **environment})
        found[where] = (tmp_path / where / "result").read_text().split()
    assert found["fakegpu"] == found["cpu"]


@pytest.mark.parametrize("framework", ["hf", "lightning", "accelerate"])
def test_a_script_that_asks_for_the_cpu_stays_there(tmp_path: Path, framework: str) -> None:
    environment = {**pretend_gpus(tmp_path), "ELASTANE_DEVICE": "cpu"}
    alone(SCRIPT, tmp_path / "run", framework, "cpu", environment=environment)
    assert (tmp_path / "run" / "result").exists()
