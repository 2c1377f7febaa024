"""Model parallel and hybrid: PALEO's bounds, and what they must obey."""

from __future__ import annotations

import pytest

from elastane.predict import Machine, RunPlan, capture, estimate_run, estimate_step, find
from elastane.predict.collectives import Sharing
from elastane.predict.operators import Kind, Operator, Phase
from elastane.predict.parallelism import Parallel, activations, fetch_s, hybrid, model_parallel
from elastane.predict.steps import StepEstimate
from predict.models import image_job, mlp_job


def step(job: object = image_job, batch: int = 256) -> StepEstimate:
    return estimate_step(capture(job, batch), Machine.from_catalog(find("a100-80g")))  # type: ignore[arg-type]


def test_one_worker_is_the_step_itself() -> None:
    one = step()
    assert model_parallel(one, Sharing(1)) == hybrid(one, Sharing(1)) == one.seconds


def test_the_interval_spans_from_all_at_once_to_one_by_one() -> None:
    one, four = step(), model_parallel(step(), Sharing(4))
    assert one.seconds.low / 4 < four.low
    assert four.high > one.seconds.high
    assert one.seconds.middle / 4 < four.middle < one.seconds.middle


def test_a_fetch_is_the_others_part_twice_and_slower_beyond_a_group_of_four() -> None:
    inside = fetch_s(1e9, Sharing(4, percent_of_peak=1.0), 10.0, 0.0)
    assert inside == pytest.approx(2 * 0.75 * 1e9 / 10e9)
    assert fetch_s(1e9, Sharing(8, percent_of_peak=1.0), 10.0, 0.0) == pytest.approx(2 * 0.875 * 1e9 / 5e9)
    assert fetch_s(1e9, Sharing(1), 10.0, 5.0) == 0.0


def test_inputs_of_layers_with_weights_are_fetched_and_nothing_else() -> None:
    sizes = (8, 3, 16, 100, 100, 9, 1, 1)
    layer = Operator("aten::convolution", Kind.CONVOLUTION, Phase.FORWARD, 1.0, 1.0, sizes)
    assert activations(layer) == 4.0 * 8 * 3 * 100
    attention = Operator("aten::bmm", Kind.MATMUL, Phase.FORWARD, 1.0, 1.0, (1, 2, 3, 4))
    assert activations(attention) == 0.0


def test_a_hybrid_does_not_exchange_the_weights_of_products() -> None:
    dense = step(lambda: mlp_job(width=2048), 8)
    slow = Sharing(4, overlap=0.0)
    data = estimate_run(dense, RunPlan(1000, 1), slow)
    both = estimate_run(dense, RunPlan(1000, 1), slow, parallel=Parallel.HYBRID)
    assert both.step_s.middle < data.step_s.middle
    assert "hybrid parallel" in both.basis


def test_a_model_in_parts_needs_less_memory_and_as_many_steps() -> None:
    one = step()
    run = estimate_run(one, RunPlan(10_000, 1), Sharing(4), parallel=Parallel.MODEL)
    assert run.memory_gb == pytest.approx(one.memory.total / 4e9)
    assert run.epoch_s.middle == pytest.approx(40 * run.step_s.middle)
