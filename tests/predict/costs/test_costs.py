"""Cost models: never nothing, never silent about doubt, and ours learns what the machine shows."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from elastane.codec import decoded, encoded
from elastane.predict.costs.contract import CostModel, Timing, roofline_s
from elastane.predict.costs.features import features
from elastane.predict.costs.gaussian import GaussianProcess
from elastane.predict.costs.layerwise import LayerwiseNetwork
from elastane.predict.costs.ratio import RatioModel, probe_factors
from elastane.predict.costs.simple import LinearInFlops, Paleo, Roofline
from elastane.predict.costs.trees import Trees, fit_trees
from elastane.predict.devices import Device, find
from elastane.predict.operators import Kind, Operator, Phase


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Small matrices gain nothing from threads, and on a busy machine these wait for each other."""
    with threadpool_limits(1):
        yield


CPU = Device("box", 8.0, 20.0, {"fp32": 0.1}, 2.0, "made up for tests", "2026-01-01")


def product(m: int, n: int, k: int, name: str = "aten::mm") -> Operator:
    moved = 4.0 * (m * k + k * n + m * n)
    return Operator(name, Kind.MATMUL, Phase.FORWARD, 2.0 * m * n * k, moved, (1, m, n, k))


def true_s(operator: Operator, device: Device) -> float:
    """A machine that likes sizes that are multiples of 16."""
    even = all(side % 16 == 0 for side in operator.dims[2:])
    return float(roofline_s([operator], device)[0]) * (1.5 if even else 2.5)


def timings(count: int, device: Device = CPU, seed: int = 0) -> list[Timing]:
    draw = np.random.default_rng(seed)
    found = []
    for index in range(count):
        m, n, k = (int(2 ** draw.uniform(3, 10)) for _ in range(3))
        if index % 2:
            n, k = 16 * max(n // 16, 1), 16 * max(k // 16, 1)
        operator = product(m, n, k)
        found.append(Timing(operator, device, true_s(operator, device) * math.exp(draw.normal(0, 0.03))))
    return found


def error(model: CostModel, rows: Sequence[Timing]) -> float:
    predicted = model.times([each.operator for each in rows], rows[0].device).seconds
    return float(np.median(np.abs(predicted / [each.seconds for each in rows] - 1.0)))


def test_ours_is_the_best_on_shapes_it_has_not_seen() -> None:
    known, new = timings(300), timings(100, seed=1)
    ours = error(RatioModel.fit(known), new)
    assert ours < 0.1
    assert ours < min(error(LinearInFlops.fit(known), new), error(Paleo.fit(known), new))


def test_the_network_of_the_paper_learns_something() -> None:
    known = timings(300)
    before = error(LayerwiseNetwork.fit(known, epochs=1), known)
    assert error(LayerwiseNetwork.fit(known, epochs=60), known) < before


def test_ours_sees_uneven_sizes_that_the_machine_feels() -> None:
    model = RatioModel.fit(timings(300))
    even, uneven = product(256, 64, 64), product(256, 65, 63)
    per_flop = [model.times([each], CPU).total / each.flops for each in (even, uneven)]
    assert per_flop[1] > 1.2 * per_flop[0]


def test_nine_in_ten_left_out_timings_lie_in_the_interval() -> None:
    model, new = RatioModel.fit(timings(300)), timings(200, seed=2)
    times = model.times([each.operator for each in new], CPU)
    off = np.abs(np.log(times.seconds / np.array([each.seconds for each in new])))
    assert 0.8 <= float(np.mean(off <= 1.645 * times.log_sd)) <= 0.99


def test_doubt_grows_with_the_distance_from_what_was_measured() -> None:
    model = RatioModel.fit(timings(300))
    times = model.times([product(100, 100, 100), product(100_000, 100_000, 4)], CPU)
    assert times.distance[1] > 2 * times.distance[0]
    assert times.log_sd[1] > 1.5 * times.log_sd[0]


def test_a_name_or_kind_never_measured_is_predicted_with_more_doubt() -> None:
    model = RatioModel.fit(
        [*timings(100), *(Timing(product(8, 8, 8, "aten::bmm"), CPU, 1e-5) for _ in range(3))]
    )
    known, new = (model.times([product(64, 64, 64, name)], CPU) for name in ("aten::mm", "aten::new"))
    assert new.log_sd[0] > known.log_sd[0]
    strange = Operator("my::op", Kind.UNKNOWN, Phase.FORWARD, 1.0, 1e6, (1, 1, 1))
    assert model.times([strange], CPU).total > 1e6 / CPU.bandwidth


def test_probes_of_a_device_move_all_its_predictions() -> None:
    slow = [Timing(each.operator, CPU, 2.0 * each.seconds) for each in timings(20, seed=3)]
    model = RatioModel.fit(timings(300))
    factors = probe_factors(model, slow)
    assert factors[Kind.MATMUL] == pytest.approx(2.0, rel=0.1)
    assert error(model.rescaled(factors), slow) < 0.1 < error(model, slow)


def test_what_is_learnt_on_some_devices_holds_on_another() -> None:
    seen = [row for name in ("p100", "t4", "v100") for row in timings(120, find(name))]
    assert error(RatioModel.fit(seen), timings(60, find("h100"), seed=4)) < 0.25


def test_the_same_timings_give_the_same_answers_to_the_last_digit() -> None:
    asked = [product(64, 64, 64), product(10, 999, 3)]
    one, other = (RatioModel.fit(timings(80)).times(asked, CPU) for _ in range(2))
    assert (one.seconds == other.seconds).all()
    assert (one.log_sd == other.log_sd).all()


@settings(max_examples=25)
@pytest.mark.parametrize("model", [Roofline(), Paleo(), LinearInFlops({}), RatioModel.fit(timings(60))])
@given(
    flops=st.floats(0, 1e15),
    moved=st.floats(0, 1e12),
    kind=st.sampled_from([*Kind]),
    size=st.integers(1, 10**6),
)
def test_every_time_is_above_nothing_and_finite(
    model: CostModel, flops: float, moved: float, kind: Kind, size: int
) -> None:
    dims = (1, size, size, size) if kind is Kind.MATMUL else (size,) * 9
    times = model.times([Operator("x", kind, Phase.FORWARD, flops, moved, dims)], find("t4"))
    assert 0 < times.total < math.inf
    assert np.isfinite(times.log_sd).all()


def test_trees_survive_json_and_say_what_scikit_learn_says() -> None:
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(400, 3))
    targets = np.sin(rows[:, 0]) + rows[:, 1] * (rows[:, 2] > 0)
    trees = fit_trees(rows, targets, rounds=30)
    again = decoded(Trees, json.loads(json.dumps(encoded(trees))))
    assert np.corrcoef(trees.predict(rows), targets)[0, 1] > 0.95
    assert (again.predict(rows) == trees.predict(rows)).all()

    from sklearn.ensemble import HistGradientBoostingRegressor

    known = HistGradientBoostingRegressor(
        max_iter=30,
        max_leaf_nodes=31,
        learning_rate=0.08,
        min_samples_leaf=8,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=0,
    )
    known.fit(rows, targets)
    assert trees.predict(rows) == pytest.approx(known.predict(rows), abs=1e-9)


def test_beyond_the_last_row_the_trend_goes_on_and_a_column_that_never_varied_says_nothing() -> None:
    rows = np.stack([np.linspace(0, 10, 400), np.full(400, 7.0)], axis=1)
    trees = fit_trees(rows, 3.0 - 0.5 * rows[:, 0], rounds=30, trend=True)
    assert trees.slopes[1] == 0.0
    assert decoded(Trees, json.loads(json.dumps(encoded(trees)))) == trees
    assert trees.predict(np.array([[20.0, 7.0], [20.0, 99.0]])) == pytest.approx([-7.0, -7.0], abs=0.8)


def test_a_gaussian_process_is_sure_where_it_was_and_unsure_elsewhere() -> None:
    rows = np.linspace(0, 3, 40)[:, None]
    process = GaussianProcess.fit(rows, np.sin(3 * rows[:, 0]))
    mean, sd = process.predict(np.array([[1.51], [30.0]]))
    assert mean[0] == pytest.approx(math.sin(3 * 1.51), abs=0.1)
    assert sd[1] > 3 * sd[0]


def test_lower_precision_moves_fewer_bytes_and_computes_faster() -> None:
    big = [product(4096, 4096, 4096)]
    a100 = find("a100-40g")
    assert roofline_s(big, a100, "bf16")[0] < 0.2 * roofline_s(big, a100, "fp32")[0]
    assert features(big, a100, "bf16").shape == features(big, a100).shape
