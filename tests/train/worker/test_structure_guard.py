"""A model whose parts change while it trains is refused in one line; one whose values change goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import TrainError
from elastane.train.worker.float_transport import from_numbers, numbers_of, size_in_numbers
from train.running import train

Change = Callable[[nn.Module], Any]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def network() -> nn.Module:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    net.register_buffer("cache", torch.zeros(2), persistent=False)
    net.register_buffer("kept", torch.zeros(2))
    return net


def trained(job: et.Job, change: Change, net: nn.Module | None = None) -> nn.Module:
    """Three epochs; the change comes after the first."""
    model = job.model(net or network())
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    data = job.loader(TensorDataset(torch.randn(32, 8), torch.arange(32) % 4), batch_size=16)
    for epoch in job.epochs(3):
        if epoch == 1:
            change(model)
        for x, y in data:
            opt.zero_grad()
            F.cross_entropy(model(x), y).backward()
            opt.step()
    return model


def _other_data(net: nn.Module) -> None:
    net[2].weight.data = torch.ones(5, 8)


REFUSED: dict[str, tuple[Change, str]] = {
    "a layer": (lambda net: net.__setitem__(2, nn.Linear(8, 4)), "module 2 was replaced"),
    "a parameter": (
        lambda net: setattr(net[2], "weight", nn.Parameter(torch.ones(4, 8))),
        "parameter 2.weight was replaced",
    ),
    "another layer": (lambda net: net.add_module("extra", nn.Linear(2, 2)), "module extra is new"),
    "no layer": (lambda net: delattr(net, "1"), "module 1 is gone"),
    "a buffer": (lambda net: net.register_buffer("late", torch.zeros(3)), "buffer late is new"),
    "no buffer": (lambda net: delattr(net, "kept"), "buffer kept is gone"),
    "a larger buffer": (lambda net: setattr(net, "kept", torch.zeros(3)), r"buffer kept has become \(3,\)"),
    "another shape": (_other_data, "parameter 2.weight has another shape"),
    "weight norm": (lambda net: parametrizations.weight_norm(net[2]), "2"),
    "pruning": (lambda net: prune.l1_unstructured(net[2], "weight", 0.5), "parameter 2.weight_orig is new"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_parts_in_mid_training_are_refused_in_one_line(job: et.Job, name: str) -> None:
    change, text = REFUSED[name]
    with pytest.raises(TrainError, match=text) as error:
        trained(job, change)
    assert "\n" not in str(error.value)
    job._finished = True  # what is left of it cannot be saved


def test_other_values_are_taken_up(job: et.Job) -> None:
    def change(net: nn.Module) -> None:
        net[2].weight.data = torch.full((4, 8), 7.0)
        net[0].weight.data.zero_()
        net.kept = torch.ones(2)

    net = trained(job, change)
    assert float(net[2].weight.detach().mean()) == pytest.approx(7.0, abs=0.5)
    assert net.kept.tolist() == [1.0, 1.0]


def test_a_cache_may_come_grow_and_go(job: et.Job) -> None:
    def change(net: nn.Module) -> None:
        net.cache = torch.ones(5)
        net.register_buffer("other", torch.ones(1), persistent=False)

    net = trained(job, change)
    assert net.cache.tolist() == [1.0] * 5


def test_a_model_made_on_the_meta_device_is_materialised_before_training(job: et.Job) -> None:
    with torch.device("meta"):
        net = network()
    net.to_empty(device="cpu")
    net.load_state_dict(network().state_dict())
    assert trained(job, lambda _: None, net)[2].weight.isfinite().all()


def test_a_parameter_without_values_is_refused_when_training_begins(job: et.Job) -> None:
    with torch.device("meta"):
        net = network()
    with pytest.raises(TrainError, match="has no values yet; materialise the model"):
        trained(job, lambda _: None, net)


def test_a_buffer_without_values_is_refused_when_training_begins(job: et.Job) -> None:
    net = network()
    net.register_buffer("table", torch.zeros(3, device="meta"))
    with pytest.raises(TrainError, match="buffer table has no values yet"):
        trained(job, lambda _: None, net)


def test_parameters_that_only_the_optimizer_has_are_saved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)

    def run(epochs: int) -> float:
        job = et.init(run=tmp_path / "run")
        model, scale = job.model(nn.Linear(8, 4)), nn.Parameter(torch.ones(()))
        opt = job.optimizer(torch.optim.SGD([*model.parameters(), scale], lr=0.1))
        data = job.loader(TensorDataset(torch.ones(16, 8), torch.arange(16) % 4), batch_size=16)
        for _ in job.epochs(epochs):
            for x, y in data:
                F.cross_entropy(model(x) * scale, y).backward()
                opt.step()
        return float(scale.detach())

    trained_scale = run(5)
    assert trained_scale != 1.0
    assert run(5) == trained_scale  # nothing left to do


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_buffers_of_every_kind_travel_without_losing_a_bit(dtype: torch.dtype) -> None:
    tensors = [
        torch.tensor([1 / 3, -1e-30, float("inf"), 1e300, -5e-324, 1e-60, -0.0], dtype=torch.float64),
        torch.tensor([2**62 + 12345, -(2**61) - 7, 0, -1]),
        torch.tensor([[True, False]]),
        torch.tensor([0.25 + 3j, -1 / 3 + 0j], dtype=torch.complex128),
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor(7, dtype=torch.uint8),
    ]
    for tensor in tensors:
        numbers = numbers_of(tensor, dtype)
        assert numbers.dtype is dtype
        assert len(numbers) == size_in_numbers(tensor)
        assert torch.equal(from_numbers(numbers, tensor), tensor)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("ddp", "workers that come and go have no default process group"),
        ("sync_batch_norm", "use BatchNorm (leave out convert_sync_batchnorm) or GroupNorm"),
        ("lbfgs", "use an optimizer whose step() needs no closure"),
        ("replaced", "module 2 was replaced since training began"),
        ("late_buffer", "buffer late is new since training began"),
        ("all_reduce", "job.all_reduce(x, 'mean') in the place of dist.all_reduce"),
    ],
)
@pytest.mark.slow
def test_a_script_that_cannot_train_elastically_ends_with_one_line_that_says_why(
    tmp_path: Path, what: str, text: str
) -> None:
    done = train("refused.py", tmp_path / "run", what, workers=2)
    assert done.ended.outcome == "failed"
    assert text in done.ended.cause, done.ended.cause
