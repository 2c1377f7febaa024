"""A backtest shows each model rows it has not seen, and finds the better of two."""

from __future__ import annotations

import math

import numpy as np
import pytest

from elastane.errors import ElastaneError
from elastane.predict.backtesting.errors import score
from elastane.predict.backtesting.held_out import OURS, held_out, models
from elastane.predict.backtesting.unseen import unseen
from elastane.predict.costs.contract import Timing, roofline_s
from elastane.predict.costs.simple import Paleo, Roofline
from elastane.predict.devices import find
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.timings import TimingSet


def timings(card: str, count: int, slower: float = 1.0) -> TimingSet:
    draw, device, found = np.random.default_rng(len(card)), find(card), []
    for _ in range(count):
        m, n, k = (int(2 ** draw.uniform(4, 10)) for _ in range(3))
        moved = 4.0 * (m * k + k * n + m * n)
        each = Operator("layer::product", Kind.MATMUL, Phase.FORWARD, 2.0 * m * n * k, moved, (1, m, n, k))
        found.append(Timing(each, device, slower * 1.7 * float(roofline_s([each], device)[0])))
    return TimingSet("product", device, found)


def test_all_four_models_are_scored_on_rows_left_out() -> None:
    told: list[float] = []
    (found,) = held_out([timings("t4", 120)], models(epochs=2), lambda done, _: told.append(done))
    assert [each.model for each in found.scores] == ["linear in FLOPs", "PALEO", "layer-wise network", OURS]
    assert all(each.rows == 12 and math.isfinite(each.rmse_ms) for each in found.scores)
    assert found.best.model == OURS
    assert found.of(OURS).median < 3.0
    assert told == sorted(told)


def test_a_card_left_out_is_brought_home_by_probes() -> None:
    sets = [timings("t4", 80), timings("v100", 80), timings("p100", 80, slower=2.0)]
    found = {each.device: each for each in unseen(sets, probes=10)}
    assert found["p100"].learnt_from == ("t4", "v100")
    assert found["p100"].plain.median == pytest.approx(50.0, abs=6.0)
    assert found["p100"].probed.median < 6.0
    assert [each.device for each in unseen(sets, only=frozenset({"t4"}))] == ["t4"]


def test_a_score_is_the_error_of_the_model() -> None:
    rows = [Timing(each.operator, each.device, 2.0 * each.seconds) for each in timings("t4", 60).timings]
    least = [Timing(r.operator, r.device, float(roofline_s([r.operator], r.device)[0])) for r in rows]
    exact = score(Roofline(usual=1.0), least)
    assert exact.median == pytest.approx(0.0, abs=1e-9)
    assert exact.covered == 100.0
    assert score(Paleo.fit(rows), rows).median > 0.0


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(ElastaneError, match="needs 50"):
        list(held_out([timings("t4", 20)], models()))
