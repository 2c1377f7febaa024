"""From a step to a run: counts, memory, prices, wishes; always an interval and its basis."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from elastane import predict
from elastane.errors import ElastaneError
from elastane.models.throughput import ThroughputParams
from elastane.predict import Machine, RunPlan, TrainingJob, capture, catalog, estimate_run, estimate_step, find
from elastane.predict.collectives import Sharing
from elastane.predict.devices import Device
from elastane.predict.interval import Interval
from elastane.predict.operators import Memory, Phase
from elastane.predict.prices import Offer, best_offer, load_prices
from elastane.predict.runs import sorted_runs
from elastane.predict.steps import StepEstimate
from predict.models import image_job, lstm_job, mlp_job

HEAD = "provider,device,gpus,usd_per_hour,source,as_of,billing_granularity_s,min_gpus,spot\n"


def step_on(
    name: str = "a100-80g", batch: int = 32, job: object = image_job, precision: str = "fp32"
) -> StepEstimate:
    return estimate_step(capture(job, batch), Machine.from_catalog(find(name)), precision)  # type: ignore[arg-type]


def test_parts_by_operator_module_and_phase_all_add_up_to_the_step() -> None:
    step = step_on("t4", 256)
    total = step.seconds.middle
    assert sum(step.by_operator().values()) == pytest.approx(total)
    assert sum(step.by_module().values()) == pytest.approx(total)
    assert sum(step.phase_s(phase) for phase in Phase) == pytest.approx(total)
    assert min(step.by_operator().values()) > 0


@pytest.mark.parametrize("job", [image_job, mlp_job, lstm_job])
def test_more_work_never_takes_less_time_and_small_batches_are_not_proportional(job: object) -> None:
    times = [step_on("v100", batch, job).seconds.middle for batch in (1, 16, 64, 1024)]
    assert all(later >= 0.95 * earlier for earlier, later in pairwise(times))
    assert times[1] < 8 * times[0]


def network(width: int, depth: int) -> TrainingJob:
    layers = [nn.Conv2d(3, width, 3, padding=1)]
    layers += [nn.Conv2d(width, width, 3, padding=1) for _ in range(depth - 1)]
    return TrainingJob(
        nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)),
        lambda n: (torch.randn(n, 3, 32, 32), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    )


@pytest.mark.parametrize("card", ["v100", "k80", "h100"])
@pytest.mark.parametrize(
    "sizes", [[(w, 4) for w in (16, 32, 64, 128, 256)], [(64, d) for d in (1, 2, 4, 8, 16)]]
)
def test_wider_and_deeper_networks_never_take_less_time(card: str, sizes: list[tuple[int, int]]) -> None:
    times = [step_on(card, 64, network(*each)).seconds.middle for each in sizes]
    assert all(later >= 0.95 * earlier for earlier, later in pairwise(times))
    assert times[-1] > 2.0 * times[0]


def test_an_interval_is_wider_where_less_is_known() -> None:
    step = step_on()
    known = replace(step.capture, operators=step.capture.operators)
    with_unknown = replace(
        known,
        operators=(*known.operators, replace(known.operators[0], kind=type(known.operators[0].kind).UNKNOWN)),
    )
    wider = estimate_step(with_unknown, step.machine)
    assert wider.seconds.high / wider.seconds.middle > step.seconds.high / step.seconds.middle


def test_epochs_steps_and_validation_are_counted() -> None:
    step = step_on()
    plan = RunPlan(samples=1000, epochs=10)
    run = estimate_run(step, plan)
    assert plan.steps_per_epoch(32, 1) == 32
    assert replace(plan, drop_last=True).steps_per_epoch(32, 1) == 31
    assert run.total_s.middle == pytest.approx(10 * 32 * step.seconds.middle)
    validated = estimate_run(step, replace(plan, validation_samples=1000))
    extra = validated.total_s.middle - run.total_s.middle
    assert extra == pytest.approx(10 * 32 * step.phase_s(Phase.FORWARD))
    saved = estimate_run(step, replace(plan, checkpoint_s=2.0, checkpoint_every=5))
    assert saved.total_s.middle - run.total_s.middle == pytest.approx(4.0)


def test_slow_data_loading_sets_the_pace_and_is_named() -> None:
    run = estimate_run(step_on(), RunPlan(1000, 1, loader_s=10.0))
    assert run.step_s.middle == 10.0
    assert "bottleneck" in run.basis
    assert "data loading was not measured" in estimate_run(step_on(), RunPlan(1000, 1)).notes


def test_workers_share_the_epoch_but_pay_for_the_exchange() -> None:
    step, plan = step_on(batch=256), RunPlan(1_000_000, 1)
    alone, eight = estimate_run(step, plan), estimate_run(step, plan, Sharing(8))
    assert eight.step_s.middle > alone.step_s.middle
    assert alone.total_s.middle / 8 < eight.total_s.middle < alone.total_s.middle
    assert eight.total_s.high / eight.total_s.middle > alone.total_s.high / alone.total_s.middle


def test_a_fitted_model_of_the_job_replaces_our_exchange() -> None:
    step, plan = step_on(), RunPlan(100_000, 1)
    fitted = ThroughputParams(0.1, 0.001, 0.2, 0.0, 0.132, 0.0, 1.0)
    run = estimate_run(step, plan, Sharing(4), fitted=fitted)
    assert run.step_s.middle == pytest.approx(2.0 * step.seconds.middle)
    assert "fitted to this job" in run.basis


def test_what_does_not_fit_into_memory_says_so_and_comes_last() -> None:
    step = step_on()
    huge = replace(step, capture=replace(step.capture, memory=Memory(parameters=100 * 10**9)))
    runs = [estimate_run(huge, RunPlan(10, 1)), estimate_run(step, RunPlan(10_000, 1))]
    assert [run.fits_memory for run in sorted_runs(runs, by_cost=False)] == [True, False]


def offer(**changes: object) -> Offer:
    made = Offer("there", "a100-80g", 1, 2.0, "their page", date(2026, 11, 1))
    return replace(made, **changes)  # type: ignore[arg-type]


def test_bills_are_rounded_up_and_whole_nodes_are_paid() -> None:
    hour = Interval.exactly(3601.0)
    assert offer().cost(hour, 1).middle == pytest.approx(2.0, rel=1e-3)
    assert offer(billing_granularity_s=3600.0).cost(hour, 1).middle == 4.0
    assert offer(gpus=8, usd_per_hour=16.0, min_gpus=8).cost(Interval.exactly(3600.0), 1).middle == 16.0
    assert offer(gpus=8, usd_per_hour=16.0).cost(Interval.exactly(3600.0), 9).middle == 32.0


def test_without_a_price_there_is_no_cost_and_no_budget_is_kept() -> None:
    run = estimate_run(step_on(), RunPlan(1000, 1), offers=[offer(device="h100")])
    assert run.cost_usd is None
    assert not run.within(1e9, None)
    assert run.within(None, 1e9)
    priced = estimate_run(step_on(), RunPlan(1_000_000, 90), offers=[offer()])
    assert priced.cost_usd is not None
    assert 0.0 < priced.cost_usd.low <= priced.cost_usd.high
    assert not priced.within(priced.cost_usd.middle, None)


def test_prices_are_dated_found_by_alias_and_old_ones_are_called_old(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text(
        HEAD + "there,NVIDIA A100-SXM4-80GB,1,2.5,their page,2026-11-01,,,\nthere,t4,1,1,p,2026-01-01,,,yes\n"
    )
    offers = load_prices(path)
    device = find("a100-80g")
    assert best_offer(offers, (device.name, *device.aliases), 1) == offers[0]
    assert "days old" in offers[1].label(date(2026, 11, 16))
    assert "days old" not in offers[0].label(date(2026, 11, 16))


@pytest.mark.parametrize(
    "line",
    [
        "there,t4,1,,p,2026-01-01,,,",
        "there,t4,1,0,p,2026-01-01,,,",
        "there,t4,1,1,p,soon,,,",
        "t,t4,x,1,p,2026-01-01,,,",
    ],
)
def test_a_price_that_is_none_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "p.csv").write_text(HEAD + line + "\n")
    with pytest.raises(ElastaneError, match="line 2"):
        load_prices(tmp_path / "p.csv")


def test_a_plan_without_sense_is_refused() -> None:
    with pytest.raises(ElastaneError):
        RunPlan(0, 1)
    with pytest.raises(ElastaneError):
        RunPlan(1, 0)


def bottleneck(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(4 * width, width, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 4 * width, 1, bias=False),
        nn.BatchNorm2d(4 * width),
    )


def fifty_layers() -> TrainingJob:
    blocks = [bottleneck(128) for _ in range(16)]
    model = nn.Sequential(
        nn.Conv2d(3, 512, 7, 4, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)
    )
    return TrainingJob(
        model,
        lambda n: (torch.randn(n, 3, 224, 224), torch.randint(0, 1000, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    )


def test_fifty_layers_on_all_devices_give_the_same_twice() -> None:
    captured = capture(fifty_layers, 32)
    steps = [estimate_step(captured, Machine.from_catalog(each), "bf16").seconds for each in catalog()]
    assert steps == [estimate_step(captured, Machine.from_catalog(each), "bf16").seconds for each in catalog()]


def test_the_optimizer_and_frozen_layers_change_the_time_of_a_step() -> None:
    box = Device("box", 8.0, 20.0, {"fp32": 0.1}, 2.0, "made up for tests", "2026-01-01")

    def seconds(optimizer: type[torch.optim.Optimizer], frozen: bool = False) -> float:
        job = mlp_job(optimizer, width=256)
        job.model[0].requires_grad_(not frozen)
        return estimate_step(capture(job, 4), Machine.from_catalog(box)).seconds.middle

    assert seconds(torch.optim.AdamW) > 1.3 * seconds(torch.optim.SGD)
    assert seconds(torch.optim.SGD, frozen=True) < seconds(torch.optim.SGD)


def test_gradient_checkpoints_take_about_one_more_forward() -> None:
    class Saving(nn.Module):
        def __init__(self, saving: bool) -> None:
            super().__init__()
            self.saving = saving
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False) if self.saving else layer(x)
            return x

    plain, saving = (
        step_on(
            "v100", 4096, TrainingJob(Saving(each), lambda n: torch.randn(n, 512), lambda m, x: m(x).mean())
        )
        for each in (False, True)
    )
    extra = saving.seconds.middle - plain.seconds.middle
    assert extra == pytest.approx(plain.phase_s(Phase.FORWARD), rel=0.2)


def test_a_spot_offer_pays_for_its_restarts_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(
        "provider,device,gpus,usd_per_hour,source,as_of,spot,restarts_per_day,restart_s\n"
        "there,t4,1,1,p,2026-11-01,yes,24,360\nthere,t4,1,1,p,2026-11-01,yes,,\n"
    )
    often, usual = load_prices(tmp_path / "p.csv")
    day = Interval.exactly(86_400.0)
    assert often.cost(day, 1).middle == pytest.approx(24 * 1.1)
    assert 24 < usual.cost(day, 1).middle < 24.5
    assert "24 restarts a day" in often.label(date(2026, 11, 16))


def test_the_short_way_from_python() -> None:
    step = predict.step(image_job, device="a100-80g", precision="bf16", batch=32)
    assert step.ms.p50 == pytest.approx(1e3 * step.seconds.middle)
    assert step.ms.interval(0.5)[0] > step.ms.interval(0.9)[0] == pytest.approx(step.ms.low)
    assert (step.unmodelled, step.memory.total > 0) == ({}, True)
    run = predict.run(step, samples=10_000, epochs=3, workers=2)
    assert run.cost([offer()]) is not None
    assert run.cost([]) is None
