"""Capture sees forward, backward and optimizer of any model, and leaves no trace in it."""

from __future__ import annotations

import random
import resource

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

from elastane.errors import ElastaneError
from elastane.predict.capturing import capture
from elastane.predict.job import TrainingJob
from elastane.predict.operators import Kind, Method, Operator, Phase, StepCapture
from predict.models import SmallNet, image_job, image_loss, looking_job, lstm_job, mlp_job


def only(captured: StepCapture, kind: Kind, phase: Phase | None = None) -> list[Operator]:
    return [each for each in captured.operators if each.kind is kind and phase in (None, each.phase)]


def test_all_three_phases_are_there_and_everything_costs_something() -> None:
    captured = capture(image_job, 4)
    assert captured.method is Method.FAKE
    assert {each.phase for each in captured.operators} == set(Phase)
    assert all(each.flops > 0 and each.bytes > 0 for each in captured.operators)
    assert captured.unknown == ()


def test_a_first_convolution_has_no_gradient_of_its_input_to_pay_for() -> None:
    captured = capture(image_job, 4)
    first = [each for each in captured.operators if each.module == "first" and "convolution" in each.kind.value]
    assert sum(each.flops for each in first) == 7_077_888

    class After(SmallNet):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x.requires_grad_())

    inner = capture(lambda: image_job(After()), 4)
    again = [each for each in inner.operators if each.module == "first" and "convolution" in each.kind.value]
    assert sum(each.flops for each in again) == 10_616_832


def test_an_lstm_counts_the_products_that_a_meta_device_counts() -> None:
    captured = capture(lstm_job, 8)
    recurrent = only(captured, Kind.RECURRENT, Phase.FORWARD)
    with FlopCounterMode(display=False) as counter:
        nn.LSTM(64, 128, 2, device="meta")(torch.randn(20, 8, 64, device="meta"))
    assert sum(each.flops for each in recurrent) == counter.get_total_flops() > 0


@pytest.mark.parametrize(
    ("model", "kind", "batch"),
    [
        (nn.LayerNorm(64), Kind.NORM, lambda n: torch.randn(n, 64)),
        (nn.BatchNorm2d(8), Kind.NORM, lambda n: torch.randn(n, 8, 4, 4)),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2)), Kind.POOL, lambda n: torch.randn(n, 3, 8, 8)),
        (nn.Sequential(nn.Conv2d(3, 4, 1), nn.AvgPool2d(2)), Kind.POOL, lambda n: torch.randn(n, 3, 8, 8)),
        (nn.Embedding(100, 16), Kind.EMBEDDING, lambda n: torch.zeros(n, 5, dtype=torch.long)),
        (nn.Sequential(nn.Linear(64, 8), nn.Softmax(-1)), Kind.SOFTMAX, lambda n: torch.randn(n, 64)),
        (nn.Sequential(nn.Linear(64, 8), nn.Dropout(0.5)), Kind.RANDOM, lambda n: torch.randn(n, 64)),
        (nn.GRU(16, 16), Kind.MATMUL, lambda n: torch.randn(5, n, 16)),
    ],
)
def test_operators_that_counters_forget_are_counted(model: nn.Module, kind: Kind, batch: object) -> None:
    def loss(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
        out = model(data)
        return (out[0] if isinstance(out, tuple) else out).square().mean()

    captured = capture(TrainingJob(model, batch, loss), 4)  # type: ignore[arg-type]
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        found = only(captured, kind, phase)
        # Dropout draws its mask once: its backward is a product with it.
        assert found or (kind is Kind.RANDOM and phase is Phase.BACKWARD)
        assert all(each.flops > 0 and each.bytes > 0 for each in found)
    assert captured.unknown == ()


def test_an_embedding_does_not_read_its_whole_table() -> None:
    table = nn.Embedding(100_000, 16)
    job = TrainingJob(
        table, lambda n: torch.zeros(n, dtype=torch.long), lambda model, x: model(x).square().mean()
    )
    (lookup,) = only(capture(job, 4), Kind.EMBEDDING, Phase.FORWARD)
    assert lookup.bytes < 2000


def test_optimizers_differ_and_frozen_layers_cost_less() -> None:
    sgd, adam = capture(mlp_job, 4), capture(lambda: mlp_job(torch.optim.AdamW), 4)
    assert adam.bytes(Phase.OPTIMIZER) > 3 * sgd.bytes(Phase.OPTIMIZER)
    assert adam.memory.optimizer > 2 * adam.memory.parameters - 100
    frozen = SmallNet()
    frozen.first.requires_grad_(False)
    frozen.norm.requires_grad_(False)
    assert capture(image_job(frozen), 4).flops() < capture(image_job(), 4).flops()


def test_gradient_checkpoints_cost_one_more_forward_and_keep_less() -> None:
    class Saving(nn.Module):
        def __init__(self, saving: bool) -> None:
            super().__init__()
            self.saving = saving
            self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(4)))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False) if self.saving else layer(x)
            return x

    def job(saving: bool) -> TrainingJob:
        return TrainingJob(
            Saving(saving), lambda n: torch.randn(n, 64), lambda model, x: model(x).square().mean()
        )

    plain, saving = capture(job(False), 64), capture(job(True), 64)
    extra = saving.flops(Phase.BACKWARD) - plain.flops(Phase.BACKWARD)
    assert extra == pytest.approx(plain.flops(Phase.FORWARD), rel=0.05)
    assert saving.memory.activations < plain.memory.activations


def test_control_flow_on_data_falls_back_to_real_steps_and_says_so() -> None:
    looking, plain = capture(looking_job, 32), capture(image_job, 32)
    assert looking.method is Method.REAL
    assert "real steps" in looking.notes[0]
    assert looking.flops() == pytest.approx(plain.flops(), rel=0.02)
    assert looking.memory.activations == pytest.approx(plain.memory.activations, rel=0.05)


def test_an_unknown_operator_is_listed_and_costs_something() -> None:
    with torch.library._scoped_library("elastane_test", "DEF") as library:
        library.define("shuffle_bits(Tensor x) -> Tensor")
        library.impl("shuffle_bits", lambda x: x.clone(), "CompositeExplicitAutograd")
        library.impl("shuffle_bits", lambda x: torch.empty_like(x), "Meta")

        def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return model(torch.ops.elastane_test.shuffle_bits(x)).square().mean()

        captured = capture(TrainingJob(nn.Linear(64, 8), lambda n: torch.randn(n, 64), loss), 4)
    assert captured.unknown == (("elastane_test::shuffle_bits", 1),)
    assert captured.unknown_share > 0
    (unknown,) = only(captured, Kind.UNKNOWN)
    assert unknown.bytes == 2 * 4 * 64 * 4


def test_the_same_network_written_otherwise_costs_the_same() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.linear(F.relu(self.one(x), inplace=True), self.two.weight, self.two.bias)

    plain = mlp_job()
    other = TrainingJob(Functional(), plain.batch_fn, plain.loss_fn, plain.optimizer_fn)
    assert capture(other, 8).flops() == pytest.approx(capture(plain, 8).flops(), rel=0.02)


def test_shared_weights_are_updated_once() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(64, 64)
            self.same = self.layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.same(self.layer(x))

    plain = mlp_job()
    captured = capture(TrainingJob(Shared(), plain.batch_fn, plain.loss_fn, plain.optimizer_fn), 8)
    assert captured.memory.parameters == (64 * 64 + 64) * 4
    assert len(only(captured, Kind.MATMUL, Phase.FORWARD)) == 2


@pytest.mark.parametrize("make", [image_job, looking_job, lstm_job, lambda: mlp_job(torch.optim.AdamW)])
def test_weights_gradients_buffers_and_randomness_are_untouched(make: object) -> None:
    job = make()  # type: ignore[operator]
    for parameter in job.model.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    state = {name: each.clone() for name, each in job.model.state_dict().items()}
    gradients = [each.grad for each in job.model.parameters()]
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()  # type: ignore[index, union-attr]
    capture(job, 4)
    after = random.getstate(), np.random.get_state()[1], torch.get_rng_state()  # type: ignore[index]
    assert before[0] == after[0]
    assert (before[1] == after[1]).all()
    assert torch.equal(before[2], after[2])
    assert job.model.training
    for name, each in job.model.state_dict().items():
        assert torch.equal(each, state[name])
    for parameter, gradient in zip(job.model.parameters(), gradients, strict=True):
        assert parameter.grad is gradient
        assert torch.equal(gradient, torch.full_like(parameter, 0.5))


def test_a_model_larger_than_memory_is_captured_without_it() -> None:
    def huge() -> TrainingJob:
        model = nn.Sequential(*(nn.Linear(32_768, 32_768) for _ in range(7)))
        return TrainingJob(
            model,
            lambda n: torch.randn(n, 32_768),
            lambda model, x: model(x).square().mean(),
            lambda parameters: torch.optim.AdamW(parameters),
        )

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    captured = capture(huge, 8)
    assert captured.memory.parameters > 30e9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


def test_operators_carry_the_path_of_their_module_forward_and_backward() -> None:
    captured = capture(image_job, 2)
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        paths = {each.module for each in captured.operators if each.phase is phase}
        assert {"first", "second", "norm", "head"} <= paths


def test_mistakes_are_named() -> None:
    with pytest.raises(ElastaneError, match="batch must be 1 or more"):
        capture(image_job, 0)
    with pytest.raises(ElastaneError, match="one element"):
        capture(TrainingJob(nn.Linear(2, 2), lambda n: torch.randn(n, 2), lambda m, x: m(x)), 2)
    with pytest.raises(ElastaneError, match="could not be run"):
        capture(TrainingJob(nn.Linear(2, 2), lambda n: torch.randn(n, 3), image_loss), 2)
