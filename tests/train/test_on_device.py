"""Training on a (pretend) GPU: alone and with others, with the bits of the CPU, through deaths and changes."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from train.on_device import pretend_gpus
from train.running import alone, train

pytestmark = [pytest.mark.slow, pytest.mark.devices]

MISTAKES = {
    "two devices": (
        "net = nn.Sequential(nn.Linear(4, 4).to('fakegpu:0'), nn.Linear(4, 2))",
        "parameters are on fakegpu:0 and cpu: put the whole model on job.device",
    ),
    "on the cpu": (
        "net = nn.Linear(4, 2)",
        "the model is on cpu, but this worker trains on fakegpu:0: write model.to(job.device), or init(device='cpu')",
    ),
    "another index": (
        "net = nn.Linear(4, 2).to('fakegpu:1')",
        "the model is on fakegpu:1, but this worker trains on",
    ),
    "an index that is not there": (
        "net = nn.Linear(4, 2).to('fakegpu:7')",
        "elastane: a device with this index is not there: this worker has been given 4 devices, counted from "
        "fakegpu:0; use job.device instead of an index",
    ),
    "own batches": (
        "net = nn.Linear(4, 2).to(job.device); batch = lambda x: torch.ones(8, 4)",
        "the model is on fakegpu:0, but its batch is on cpu: write batch.to(job.device)",
    ),
}
SCRIPT = """
import torch
from torch import nn
import elastane.train as et
job = et.init({init})
batch = lambda x: x
{model}
job.model(net)
opt = job.optimizer(torch.optim.SGD(net.parameters(), lr=0.1))
for _ in job.epochs(1):
    for (x,) in job.loader(torch.utils.data.TensorDataset(torch.ones(32, 4)), batch_size=8):
        net(batch(x)).sum().backward()
        opt.step()
"""


def complaint(folder: Path, init: str, model: str) -> str:
    """The last line that a plain run of a script says before it fails."""
    script = folder / "script.py"
    script.write_text(SCRIPT.format(init=init, model=model))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={**os.environ, **pretend_gpus(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(tmp_path: Path, mistake: str) -> None:
    model, told = MISTAKES[mistake]
    assert told in complaint(tmp_path, "", model)


def test_a_device_that_was_not_given_is_explained(tmp_path: Path) -> None:
    assert "fakegpu:7 is not there: this worker has been given 4 devices" in complaint(
        tmp_path, "device='fakegpu:7'", "net = nn.Linear(4, 2)"
    )


@pytest.mark.parametrize("workers", [1, 3])
def test_it_gives_the_bits_of_the_cpu(tmp_path: Path, workers: int) -> None:
    result = tmp_path / "result"
    given = str(result), "--epochs", "2"
    environment = pretend_gpus(tmp_path)
    on_gpu = train(
        "on_device.py", tmp_path / "run", *given, mode="consistent", workers=workers, environment=environment
    )
    assert on_gpu.ended.outcome == "finished", on_gpu.log()
    bits, _, where = result.read_text().split()
    assert where == "fakegpu"
    alone("on_device.py", tmp_path / "cpu", *given, mode="consistent")
    assert result.read_text().split() == [bits, "2", "cpu"]


def test_several_workers_keep_the_owners_batch(tmp_path: Path) -> None:
    """On their devices: two epochs of 400 samples, 32 in each step, whoever computes them."""
    result = tmp_path / "result"
    given = str(result), "--epochs", "2", "--norm", "--opt", "adam"
    run = train("on_device.py", tmp_path / "run", *given, workers=2, environment=pretend_gpus(tmp_path))
    assert run.ended.outcome == "finished", run.log()
    assert run.ended.step == 2 * math.ceil(400 / 32)
    assert result.read_text().split()[1:] == ["2", "fakegpu"]


def test_consistent_mode_refuses_settings_that_change_bits(tmp_path: Path) -> None:
    model = "net = nn.Linear(4, 2).to(job.device); torch.backends.cuda.matmul.allow_tf32 = True"
    told = complaint(tmp_path, "'consistent'", model)
    assert told.endswith("gives the same bits only with torch.backends.cuda.matmul.fp32_precision = 'ieee'")


@pytest.mark.parametrize(("mode", "shared"), [("consistent", False), ("fixed", True)])
def test_only_consistent_mode_minds_what_others_train_on(tmp_path: Path, mode: str, shared: bool) -> None:
    """The signature, which the coordinator compares: a CPU and a GPU have the same in fixed mode only."""
    signatures = set()
    for where in ("cpu", "fakegpu"):
        script = tmp_path / f"{where}.py"
        told = "\nprint(sorted(job._session.loop.crew.signature()['settings'].items()))"
        script.write_text(SCRIPT.format(init=repr(mode), model="net = nn.Linear(4, 2).to(job.device)") + told)
        done = subprocess.run(
            [sys.executable, str(script)],
            cwd=tmp_path,
            env={**os.environ, **pretend_gpus(tmp_path), "ELASTANE_DEVICE": where},
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
            check=True,
        )
        signatures.add(done.stdout.strip().splitlines()[-1])
    assert (len(signatures) == 1) == shared
