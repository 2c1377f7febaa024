"""Models and loops with peculiarities train as without the library, and alike on every worker."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.coordinator.scripted_events import Wish
from train.running import alone, train
from train.scripts.oddities import BATCH, LABELS, TOKENS, Net, one_pass, optimizer_of

TRAITS = [
    "tied",
    "set_to_none",
    "zeros",
    "dropped",
    "sometimes",
    "sparse_sgd",
    "sparse_adam",
    "checkpoint",
    "checkpoint_reentrant",
    "weight_norm",
    "spectral_norm",
    "new_buffers",
    "clamped",
    "compiled_inside",
    "compiled_outside",
]
WISHES = (
    Wish(2, "resize", 3, steps=True),
    Wish(0, "kill-leader", settled=True),
    Wish(0, "resize", 1, settled=True),
    Wish(0, "resize", 2, settled=True),
)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def plain(trait: str, passes: int = 3) -> Net:
    torch.manual_seed(0)
    net = Net(frozenset([trait]))
    opt = optimizer_of(net)
    for _ in range(passes):
        one_pass(zip(TOKENS.split(BATCH), LABELS.split(BATCH), strict=True), net, net, opt)
    return net


def ours(job: et.Job, trait: str, passes: int = 3) -> Net:
    torch.manual_seed(0)
    net = Net(frozenset([trait]))
    model = job.model(torch.compile(net, backend="eager") if trait == "compiled_inside" else net)
    called = torch.compile(net, backend="eager") if trait == "compiled_outside" else model
    opt = job.optimizer(optimizer_of(net))
    data = job.loader(TensorDataset(TOKENS, LABELS), batch_size=BATCH, shuffle=False)
    for _ in job.epochs(passes):
        one_pass(data, net, called, opt)
    return net


def differing(one: nn.Module, other: nn.Module, tolerance: float = 0.0) -> list[str]:
    """Names of what is not the same in two models."""
    pairs = zip(one.state_dict().items(), other.state_dict().values(), strict=True)
    return [name for (name, a), b in pairs if a.dtype != b.dtype or float((a - b).abs().max()) > tolerance]


@pytest.mark.parametrize("trait", TRAITS)
def test_alone_a_model_trains_to_the_last_bit_as_without_the_library(job: et.Job, trait: str) -> None:
    # Duplicate rows of a sparse gradient are added up in another order.
    assert differing(ours(job, trait), plain(trait), 1e-5 if trait == "sparse_sgd" else 0.0) == []


def test_clipping_by_pytorch_alone_is_that_of_the_plain_loop(job: et.Job) -> None:
    assert differing(ours(job, "clipped"), plain("clipped"), 1e-5) == []


ALL = "tied,dropped,sometimes,checkpoint,weight_norm,spectral_norm,new_buffers,clipped"


@pytest.mark.parametrize(
    "traits",
    [
        pytest.param(ALL, id="everything"),
        pytest.param(
            "sparse_sgd,checkpoint_reentrant,zeros,clamped",
            id="sparse gradients with SGD",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "sparse_adam,set_to_none,compiled_inside", id="SparseAdam, compiled", marks=pytest.mark.slow
        ),
    ],
)
def test_the_bits_are_the_same_alone_and_through_resizes_and_a_kill(tmp_path: Path, traits: str) -> None:
    elastic, single = tmp_path / "elastic", tmp_path / "single"
    done = train(
        "oddities.py", tmp_path / "run", str(elastic), traits, "--pause=0.01", wishes=WISHES, mode="consistent"
    )
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    epochs = elastic.read_text().split()[1]
    alone("oddities.py", tmp_path / "alone", str(single), traits, f"--epochs={epochs}", mode="consistent")
    assert elastic.read_text() == single.read_text()


@pytest.mark.slow
def test_a_job_may_be_compiled_in_one_run_and_not_in_the_next(tmp_path: Path) -> None:
    run, out, whole = tmp_path / "run", tmp_path / "out", tmp_path / "whole"
    alone("oddities.py", run, str(out), "compiled_inside", "--epochs=2", mode="consistent")
    alone("oddities.py", run, str(out), "plain", "--epochs=4", mode="consistent")
    alone("oddities.py", tmp_path / "other", str(whole), "plain", "--epochs=4", mode="consistent")
    assert out.read_text() == whole.read_text()
