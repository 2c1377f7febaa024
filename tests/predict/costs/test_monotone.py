"""A calibrated machine does not predict more work to take less, and still feels uneven sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from elastane.predict.costs.contract import roofline_s
from elastane.predict.costs.monotone import Monotone
from elastane.predict.costs.ratio import RatioModel
from elastane.predict.costs.simple import Roofline
from elastane.predict.devices import Device
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.profile import Measured, Profile

CPU = Device("box", 8.0, 20.0, {"fp32": 0.1}, 2.0, "made up for tests", "2026-01-01")


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        yield


def matrices(m: int, n: int, k: int) -> Operator:
    moved = 4.0 * (m * k + k * n + m * n)
    return Operator("aten::mm", Kind.MATMUL, Phase.BACKWARD, 2.0 * m * n * k, moved, (1, m, n, k))


def plain(kind: Kind, elements: int) -> Operator:
    return Operator("aten::relu", kind, Phase.FORWARD, 1.0 * elements, 8.0 * elements, (elements, elements, 1))


def convolution(batch: int, channels: int, groups: int = 1) -> Operator:
    weights = 9 * channels * channels // groups
    moved = 4.0 * (2 * batch * channels * 256 + weights)
    dims = (batch, channels, channels, 256, 256, 9, 1, groups)
    flops = 2.0 * batch * 256 * weights
    return Operator("aten::convolution", Kind.CONVOLUTION, Phase.FORWARD, flops, moved, dims)


def true_s(operator: Operator) -> float:
    """Products of two rows are slow where they are wide, as was seen on a real machine, and so are uneven ones."""
    _, m, n, k = operator.dims
    slow = 3.0 if k == 2 and m * n > 1e5 else 1.0
    uneven = 2.5 if n % 4 or (k > 4 and k % 4) else 1.0
    return float(roofline_s([operator], CPU)[0]) * slow * uneven


@pytest.fixture(scope="module")
def profile() -> Profile:
    draw = np.random.default_rng(0)
    measured = []
    for index in range(150):
        wide = [int(2 ** draw.uniform(3, 10)) for _ in range(2)]
        wide = (
            [512, 1024]
            if index % 10 == 0
            else wide
            if index % 2
            else [16 * max(each // 16, 1) for each in wide]
        )
        asked = matrices(*wide, 2 if index % 10 == 0 else int(draw.choice([4, 10, 16, 64, 256])))
        seconds = true_s(asked) * math.exp(draw.normal(0, 0.05))
        measured.append(
            Measured(asked.name, asked.kind, asked.phase, asked.flops, asked.bytes, asked.dims, seconds)
        )
    return Profile(CPU, 0.0, "2", 1, "box", tuple(measured), ())


def worst_fall(times: list[float]) -> float:
    return max(1.0 - later / earlier for earlier, later in pairwise(times))


@pytest.mark.parametrize("width", [64, 256, 512])
def test_gradients_of_larger_batches_are_not_predicted_to_take_less(profile: Profile, width: int) -> None:
    asked = [matrices(width, width, batch) for batch in (2, 4, 8, 16, 32, 64)]
    assert worst_fall([profile.model.times([each], CPU).total for each in asked]) < 0.01


def test_the_fit_alone_does_predict_it(profile: Profile) -> None:
    """Else the test above would show nothing."""
    model = RatioModel.fit(profile.timings)
    assert worst_fall([model.times([matrices(512, 512, batch)], CPU).total for batch in (2, 4)]) > 0.05


def test_uneven_sizes_are_as_slow_as_they_were_measured(profile: Profile) -> None:
    fitted = RatioModel.fit(profile.timings)
    asked = [matrices(66, 66, 10), matrices(66, 127, 63)]
    alone, bounded = (model.times(asked, CPU).seconds for model in (fitted, profile.model))
    assert bounded == pytest.approx(alone)
    per_flop = [
        profile.model.times([each], CPU).total / each.flops for each in (asked[1], matrices(64, 128, 64))
    ]
    assert per_flop[0] > 1.3 * per_flop[1]


def test_all_operators_keep_their_place_doubt_and_distance(profile: Profile) -> None:
    fitted = RatioModel.fit(profile.timings)
    asked = [matrices(64, 64, 64), matrices(8, 8, 8), matrices(64, 64, 64), plain(Kind.ELEMENTWISE, 10)]
    alone, bounded = (model.times(asked, CPU) for model in (fitted, Monotone(fitted)))
    assert bounded.log_sd == pytest.approx(alone.log_sd)
    assert bounded.distance == pytest.approx(alone.distance)
    assert bounded.seconds[0] == bounded.seconds[2]
    assert (bounded.seconds <= alone.seconds * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    "asked",
    [
        *(plain(kind, 100) for kind in Kind if kind.arithmetic is False),
        matrices(3, 3, 3),
        matrices(0, 8, 8),
        convolution(2, 3),
        convolution(2, 16, 16),
        Operator("a", Kind.ATTENTION, Phase.FORWARD, 1e6, 1e4, (4, 8, 8, 16, 0)),
        Operator("r", Kind.RECURRENT, Phase.FORWARD, 1e6, 1e4, (4, 8, 8, 16, 0)),
    ],
    ids=lambda each: f"{each.kind.value}{each.dims}",
)
def test_a_model_that_never_falls_is_left_as_it_is(asked: Operator) -> None:
    assert Monotone(Roofline()).times([asked], CPU).seconds == Roofline().times([asked], CPU).seconds


def test_larger_operators_are_those_that_a_capture_would_see() -> None:
    seen: list[Operator] = []

    class Listening(Roofline):
        def times(self, operators, device, precision="fp32"):  # type: ignore[no-untyped-def]
            seen.extend(operators)
            return super().times(operators, device, precision)

    Monotone(Listening()).times([matrices(4, 8, 16), convolution(2, 8)], CPU)
    assert matrices(8, 8, 16) in seen
    assert matrices(16, 32, 64) in seen
    assert convolution(4, 16) in seen


def test_nothing_asked_nothing_answered(profile: Profile) -> None:
    assert profile.model.times([], CPU).seconds.size == 0
