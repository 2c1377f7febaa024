"""Gradient statistics: the worked example, truth on a toy problem, what is skipped, and what it may cost."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from elastane.train.adapt.statistics import GradientStatistics
from elastane.train.errors import TrainError
from elastane.train.reduce.gradients import GradientLayout


class Clock:
    """Time that passes only when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def plain(size: int = 2, batch0: int = 1, lr: float = 0.1) -> GradientStatistics:
    """Statistics of an SGD job with ``size`` parameters."""
    parameter = nn.Parameter(torch.zeros(size))
    return GradientStatistics(
        GradientLayout([[parameter]]), torch.optim.SGD([parameter], lr), batch0, clock=Clock()
    )


def measure(statistics: GradientStatistics, step: int, gradients: list[Tensor], unit_size: int) -> None:
    """One step of one worker with these units."""
    assert statistics.begin(step)
    for gradient in gradients:
        statistics.unit(gradient)
    statistics.total(torch.stack(gradients).mean(0))
    statistics.finish(statistics.local(), len(gradients), unit_size * len(gradients))


class Regression:
    """Linear regression with known noise; the truth is found by going over all samples."""

    def __init__(self, rows: int = 400, features: int = 8) -> None:
        self.random = torch.Generator().manual_seed(7)
        self.x = torch.randn(rows, features, generator=self.random)
        truth = torch.randn(features, generator=self.random)
        self.y = self.x @ truth + 0.5 * torch.randn(rows, generator=self.random)
        self.model = nn.Linear(features, 1, bias=False)
        with torch.no_grad():
            self.model.weight.copy_(truth + 0.4 * torch.randn(1, features, generator=self.random))
        self.layout = GradientLayout([list(self.model.parameters())])

    def gradient(self, rows: Tensor) -> Tensor:
        vector = self.layout.vector()
        self.layout.attach(vector, clear=True)
        loss = 0.5 * (self.model(self.x[rows]).squeeze(1) - self.y[rows]).square().mean()
        loss.backward()
        return vector.gradients

    def draw(self, count: int) -> Tensor:
        return torch.randint(len(self.x), (count,), generator=self.random)

    def exact(self) -> tuple[float, float]:
        """|G|² and tr(Σ) of one sample."""
        each = torch.stack([self.gradient(torch.tensor([row])) for row in range(len(self.x))]).double()
        mean = each.mean(0)
        return float(mean.square().sum()), float((each - mean).square().sum(1).mean())


# ---- golden numbers and truth ----------------------------------------------------------------------------


def test_worked_example() -> None:
    # Four units of one sample: mean (2, 0), so total = 4; squared norms 16, 4, 10, 10, so local = 10.
    units = [[4.0, 0.0], [2.0, 0.0], [1.0, 3.0], [1.0, -3.0]]
    statistics = plain()
    measure(statistics, 0, [torch.tensor(unit) for unit in units], unit_size=1)
    noise = statistics.noise
    assert noise.sqr[0] / noise.weight == pytest.approx(2.0)
    assert noise.var[0] / noise.weight == pytest.approx(8.0)
    assert noise.gain(4.0) == pytest.approx(2.5)
    assert statistics.variance.value == pytest.approx(8.0)


@pytest.mark.parametrize("units", [2, 8])
def test_noise_scale_is_within_ten_per_cent_of_the_exhaustive_truth(units: int) -> None:
    toy = Regression()
    square, trace = toy.exact()
    statistics = GradientStatistics(toy.layout, torch.optim.SGD(toy.model.parameters()), 32, clock=Clock())
    for step in range(3000 // units):
        measure(statistics, step, [toy.gradient(toy.draw(8)) for _ in range(units)], unit_size=8)
    assert statistics.noise.phi == pytest.approx(trace / square, rel=0.1)
    assert not statistics.noise.biased


def test_one_unit_alone_finds_the_noise_scale_from_successive_steps() -> None:
    toy = Regression()
    square, trace = toy.exact()
    statistics = GradientStatistics(toy.layout, torch.optim.SGD(toy.model.parameters()), 16, clock=Clock())
    for step in range(3000):
        measure(statistics, step, [toy.gradient(toy.draw(16))], unit_size=16)
    assert statistics.noise.phi == pytest.approx(trace / square, rel=0.1)
    assert statistics.noise.biased


def test_short_average_of_the_variance_is_that_of_one_sample() -> None:
    toy = Regression()
    _, trace = toy.exact()
    statistics = GradientStatistics(toy.layout, torch.optim.SGD(toy.model.parameters()), 32, clock=Clock())
    found = []
    for step in range(400):
        measure(statistics, step, [toy.gradient(toy.draw(4)) for _ in range(4)], unit_size=4)
        found.append(statistics.variance.value or math.nan)
    assert sum(found[100:]) / 300 == pytest.approx(trace, rel=0.1)


def test_two_workers_that_share_their_sums_agree_with_one_that_sees_all() -> None:
    units = [torch.randn(6, generator=torch.Generator().manual_seed(i)) for i in range(4)]
    alone = plain(6)
    measure(alone, 0, units, unit_size=2)
    pair = [plain(6), plain(6)]
    for worker, own in zip(pair, (units[:1], units[1:]), strict=True):
        worker.begin(0)
        for unit in own:
            worker.unit(unit)
    sums = [sum(x) for x in zip(*(worker.local() for worker in pair), strict=True)]
    for worker in pair:
        worker.total(torch.stack(units).mean(0))
        worker.finish(sums, 4, 8)
    assert pair[0].noise == pair[1].noise
    assert pair[0].noise.phi == pytest.approx(alone.noise.phi, rel=1e-6)


# ---- Adam ------------------------------------------------------------------------------------------------


def adam_job() -> tuple[GradientStatistics, torch.optim.Optimizer, nn.Parameter]:
    parameter = nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.Adam([parameter], betas=(0.9, 0.9))
    statistics = GradientStatistics(GradientLayout([[parameter]]), optimizer, 1, clock=Clock())
    return statistics, optimizer, parameter


def adam_step(optimizer: torch.optim.Optimizer, parameter: nn.Parameter) -> None:
    parameter.grad = torch.tensor([1e3, 1.0, 1e-3])
    optimizer.step()


def test_adam_is_measured_in_its_own_metric_and_earlier_samples_are_dropped() -> None:
    statistics, optimizer, parameter = adam_job()
    units = [torch.tensor([1e3, 1.0, 1e-3]), torch.tensor([1e3, 3.0, 1e-3])]
    for step in range(7):
        measure(statistics, step, units, unit_size=1)
        adam_step(optimizer, parameter)
    # v̂ = g² after equal gradients, so P g = (1, 1, 1) and (1, 3, 1): local 7, total 6, sqr 5, var = 1·S = 2.
    assert statistics.noise.count == 2
    assert statistics.noise.phi == pytest.approx(2.0 / 5.0, rel=1e-3)


def test_one_unit_alone_is_measured_in_adams_metric_of_today() -> None:
    statistics, optimizer, parameter = adam_job()
    random = torch.Generator().manual_seed(5)
    gradients = [torch.randn(3, generator=random) for _ in range(8)]
    for step, gradient in enumerate(gradients):
        before = statistics.noise
        measure(statistics, step, [gradient], unit_size=1)
        last = statistics.noise
        parameter.grad = gradient
        if step < 7:
            optimizer.step()
    v = optimizer.state[parameter]["exp_avg_sq"].double()
    p = 1.0 / ((v / (1 - 0.9**7)).sqrt() + 1e-8)
    now, then = gradients[7].double() * p, gradients[6].double() * p
    norms = [float(x.square().sum()) for x in (now, then, (now + then) / 2)]
    expected = before.observe_single([norms[0]], [norms[1]], [norms[2]], 1.0)
    assert last.count == expected.count == 3
    assert last.sqr == pytest.approx(expected.sqr, rel=1e-4)
    assert last.var == pytest.approx(expected.var, rel=1e-4)


def test_samples_right_after_a_reset_are_not_mixed_in() -> None:
    statistics, optimizer, parameter = adam_job()
    units = [torch.ones(3), 2 * torch.ones(3)]
    for step in range(6):
        measure(statistics, step, units, unit_size=1)
        adam_step(optimizer, parameter)
    before = statistics.noise
    for state in optimizer.state.values():
        state["step"].fill_(1)
    measure(statistics, 6, units, unit_size=1)
    assert statistics.noise == before


# ---- mixed precision and samples that do not count -------------------------------------------------------


@given(st.integers(0, 16))
def test_the_loss_scale_leaves_no_trace(power: int) -> None:
    scale = 2.0**power
    units = [torch.tensor([1.0, 2.0]), torch.tensor([2.0, 0.5])]
    reference, scaled = plain(), plain()
    measure(reference, 0, units, unit_size=1)
    scaled.begin(0)
    for unit in units:
        scaled.unit(unit * scale, loss_scale=scale)
    scaled.total(torch.stack(units).mean(0) * scale, loss_scale=scale)
    scaled.finish(scaled.local(), 2, 2)
    assert scaled.noise == reference.noise


def test_the_loss_scale_leaves_no_trace_between_two_steps_of_one_unit() -> None:
    reference, scaled = plain(), plain()
    for step, scale in enumerate((1024.0, 512.0, 512.0)):
        gradient = torch.tensor([1.0, float(step)])
        measure(reference, step, [gradient], unit_size=1)
        scaled.begin(step)
        scaled.unit(gradient * scale, scale)
        scaled.total(gradient * scale, scale)
        scaled.finish(scaled.local(), 1, 1)
    assert reference.noise.count == 2
    assert scaled.noise == reference.noise


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_an_overflow_changes_nothing_and_is_soon_forgotten(bad: float) -> None:
    makes: list[Callable[[Tensor], list[Tensor]]] = [lambda x: [x], lambda x: [x, 2 * x]]
    for make in makes:
        statistics = plain()
        for step in range(3):
            measure(statistics, step, make(torch.tensor([1.0, float(step)])), unit_size=1)
        before = statistics.noise, statistics.variance
        for step in (3, 4):
            measure(statistics, step, make(torch.tensor([bad, 1.0])), unit_size=1)
        assert (statistics.noise, statistics.variance) == before
        for step in (5, 6):
            measure(statistics, step, make(torch.tensor([1.0, float(step)])), unit_size=1)
        assert statistics.noise.count > before[0].count
        assert math.isfinite(statistics.noise.gain(2.0))


@pytest.mark.parametrize(("sizes", "counted"), [((10, 10), 1), ((10, 9), 1), ((10, 8), 0)])
def test_units_of_unlike_size_are_not_compared(sizes: tuple[int, int], counted: int) -> None:
    statistics = plain()
    statistics.begin(0)
    statistics.unit(torch.tensor([1.0, 0.0]))
    statistics.unit(torch.tensor([0.0, 1.0]))
    statistics.total(torch.tensor([0.5, 0.5]))
    statistics.finish(statistics.local(), 2, sum(sizes), sizes)
    assert statistics.noise.count == counted


def test_single_units_are_compared_only_with_the_step_before_at_the_same_batch() -> None:
    statistics = plain()
    measure(statistics, 0, [torch.tensor([1.0, 0.0])], unit_size=4)
    measure(statistics, 1, [torch.tensor([0.0, 1.0])], unit_size=8)
    assert statistics.noise.count == 0
    measure(statistics, 3, [torch.tensor([1.0, 1.0])], unit_size=8)
    assert statistics.noise.count == 0
    measure(statistics, 4, [torch.tensor([1.0, 0.0])], unit_size=8)
    assert statistics.noise.count == 1


def test_the_first_step_of_several_units_after_single_ones_only_ends_those() -> None:
    statistics = plain()
    for step in range(3):
        measure(statistics, step, [torch.tensor([1.0, float(step)])], unit_size=4)
    assert statistics.noise.biased
    before = statistics.noise
    units = [torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0])]
    measure(statistics, 3, units, unit_size=4)
    assert statistics.noise == before
    measure(statistics, 4, units, unit_size=4)
    fresh = plain()
    measure(fresh, 4, units, unit_size=4)
    assert statistics.noise == fresh.noise


def test_the_kept_gradient_is_a_copy() -> None:
    statistics = plain()
    gradient = torch.tensor([1.0, 0.0])
    measure(statistics, 0, [gradient], unit_size=1)
    gradient.fill_(7.0)
    measure(statistics, 1, [torch.tensor([1.0, 0.0])], unit_size=1)
    assert statistics.noise.var[0] == 0.0


def test_after_a_resize_a_veteran_and_a_newcomer_stay_alike() -> None:
    veteran = plain()
    for step in range(3):
        measure(veteran, step, [torch.tensor([1.0, float(step)])], unit_size=1)
    newcomer = plain()
    newcomer.load_state_dict(veteran.state_dict())
    veteran.restart()
    for worker in (veteran, newcomer):
        for step in (3, 4):
            measure(worker, step, [torch.tensor([2.0, float(step)])], unit_size=1)
    assert veteran.state_dict() == newcomer.state_dict()
    assert veteran.noise.count == 3


@pytest.mark.parametrize("units", [1, 2])
def test_a_loss_scale_of_zero_changes_nothing(units: int) -> None:
    statistics = plain()
    for step in range(3):
        measure(statistics, step, [torch.ones(2)] * units, unit_size=1)
    before = statistics.noise
    statistics.begin(3)
    for _ in range(units):
        statistics.unit(torch.zeros(2), loss_scale=0.0)
    statistics.total(torch.zeros(2), loss_scale=0.0)
    statistics.finish(statistics.local(), units, units)
    assert statistics.noise == before


def test_a_step_that_is_redone_is_not_measured() -> None:
    statistics = plain()
    assert statistics.begin(0)
    statistics.unit(torch.ones(2))
    assert not statistics.begin(0, again=True)
    statistics.unit(torch.ones(2))
    assert statistics.local() == [0.0]
    statistics.total(torch.ones(2))
    statistics.finish([2.0], 2, 2)
    assert statistics.noise.count == 0


# ---- pacing ----------------------------------------------------------------------------------------------


def live(statistics: GradientStatistics, clock: Clock, steps: range, cost_s: float, step_s: float) -> list[int]:
    """Run steps of known length and measuring cost; returns those that were measured."""
    measured = []
    costly = CostlyVector(clock, cost_s)
    for step in steps:
        if statistics.begin(step):
            measured.append(step)
            costly.spend(statistics.unit)
            statistics.unit(torch.ones(2))
            statistics.total(torch.ones(2))
            statistics.finish(statistics.local(), 2, 2)
        clock.now_s += step_s
        statistics.set_stride(statistics.stride)
    return measured


class CostlyVector:
    """Stands for a gradient whose norm takes a known time."""

    def __init__(self, clock: Clock, cost_s: float) -> None:
        self.clock, self.cost_s = clock, cost_s

    def spend(self, unit: Callable[[Tensor], None]) -> None:
        clock, cost_s = self.clock, self.cost_s

        class Slow(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
                if func is torch.dot:
                    clock.now_s += cost_s
                return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

        unit(torch.ones(2).as_subclass(Slow))


@given(cost_s=st.floats(1e-5, 0.5), step_s=st.floats(1e-3, 1.0), budget=st.floats(0.01, 0.2))
def test_measuring_costs_no_more_than_its_budget_after_the_first_steps(
    cost_s: float, step_s: float, budget: float
) -> None:
    clock = Clock()
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter])
    statistics = GradientStatistics(GradientLayout([[parameter]]), optimizer, 1, budget, clock)
    live(statistics, clock, range(40), cost_s, step_s)
    stride = statistics.stride
    assert stride == 1000 or cost_s / stride <= budget * step_s * (1 + 1e-6)
    assert stride == 1 or cost_s / (stride - 1) > budget * step_s * (1 - 1e-6) or stride == 1000


def test_a_pause_for_a_resize_is_not_taken_for_a_step() -> None:
    clock = Clock()
    parameter = nn.Parameter(torch.zeros(2))
    optimizer = torch.optim.SGD([parameter])
    statistics = GradientStatistics(GradientLayout([[parameter]]), optimizer, 1, 0.1, clock)
    live(statistics, clock, range(3), cost_s=1.0, step_s=1.0)
    for _ in range(9):
        statistics.restart()
        clock.now_s += 1000.0
        live(statistics, clock, range(3), cost_s=1.0, step_s=1.0)
    assert statistics.stride == 10


def test_every_one_of_the_first_steps_is_measured_then_every_kth() -> None:
    clock = Clock()
    parameter = nn.Parameter(torch.zeros(2))
    layout = GradientLayout([[parameter]])
    statistics = GradientStatistics(layout, torch.optim.SGD([parameter]), 1, 0.1, clock)
    assert live(statistics, clock, range(40), cost_s=1.0, step_s=1.0) == [*range(20), 20, 30]


def after(steps: list[int], levels: list[float]) -> float:
    """The average variance after samples of given variance at given steps (scale 1, |g|² = 1)."""
    statistics = plain(size=1, batch0=2)
    statistics.set_stride(1)
    for step, level in zip(steps, levels, strict=True):
        statistics.begin(step)
        statistics.total(torch.tensor([1.0]))
        statistics.finish([2.0 * (1.0 + level)], 2, 2)
    return statistics.noise.var[0] / statistics.noise.weight


def test_the_average_forgets_by_steps_that_went_by_not_by_those_measured() -> None:
    old, new = [100.0] * 400, [1.0] * 100
    every = after(list(range(400 * 10 + 100 * 10)), [level for level in old + new for _ in range(10)])
    tenth = after(list(range(0, 5000, 10)), old + new)
    assert tenth == pytest.approx(every, rel=0.02)


def test_however_rarely_it_is_measured_the_average_rests_on_many_samples() -> None:
    # Weights fall by 0.98 per sample, so the last one counts 2 %.
    spike = after(list(range(0, 400_000, 1000)), [0.0] * 399 + [100.0])
    assert spike == pytest.approx(2.0, rel=0.01)


def test_one_unit_alone_is_measured_in_pairs_of_steps() -> None:
    statistics = plain()
    measure(statistics, 0, [torch.ones(2)], unit_size=1)
    statistics.set_stride(10)
    assert [step for step in range(20, 60) if statistics.begin(step)] == [20, 29, 30, 39, 40, 49, 50, 59]


def test_the_decision_depends_on_nothing_but_the_step_and_the_stride() -> None:
    busy, idle = plain(), plain()
    for step in range(5):
        measure(busy, step, [torch.ones(2), torch.zeros(2)], unit_size=1)
    busy.set_stride(7)
    idle.set_stride(7)
    assert [busy.begin(s) for s in range(100)] == [idle.begin(s) for s in range(100)]


# ---- state -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [1, 3])
def test_a_restored_worker_goes_on_exactly_alike(units: int) -> None:
    first = plain(4, batch0=2)
    random = torch.Generator().manual_seed(1)
    for step in range(6):
        measure(first, step, [torch.randn(4, generator=random) for _ in range(units)], unit_size=2)
    first.set_stride(3)
    second = plain(4, batch0=2)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()
    assert [second.begin(s) for s in range(20, 40)] == [first.begin(s) for s in range(20, 40)]


def test_states_that_do_not_fit_are_refused_with_a_sentence() -> None:
    saved = plain(batch0=4).state_dict()
    with pytest.raises(TrainError, match="belong to 4, but now it is 8"):
        plain(batch0=8).load_state_dict(saved)
    with pytest.raises(TrainError, match="not a saved state"):
        plain().load_state_dict({})


def test_wrong_budgets_and_strides_are_refused() -> None:
    parameter = nn.Parameter(torch.zeros(1))
    layout = GradientLayout([[parameter]])
    with pytest.raises(TrainError, match="budget"):
        GradientStatistics(layout, torch.optim.SGD([parameter]), 1, budget=0.0)
    with pytest.raises(TrainError, match="stride"):
        plain().set_stride(0)
