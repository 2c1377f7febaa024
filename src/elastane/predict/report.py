"""Shows predictions as tables for people and as JSON for programs: the same figures, never without an interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from elastane.kit.durations import duration
from elastane.predict.devices import Device
from elastane.predict.interval import Interval
from elastane.predict.operators import Phase, StepCapture
from elastane.predict.runs import RunEstimate
from elastane.predict.steps import StepEstimate

if TYPE_CHECKING:
    from rich.table import Table


def spread(value: Interval) -> str:
    """Formats an interval: its middle and its borders."""
    return f"{duration(value.middle)} [{duration(value.low)} – {duration(value.high)}]"


def interval_json(value: Interval) -> dict[str, float]:
    """Returns the three quantiles and the booking value as JSON values."""
    return {"p05": value.low, "p50": value.middle, "p95": value.high, "booking": value.booking}


def capture_json(capture: StepCapture) -> dict[str, Any]:
    """Returns the totals of a capture as JSON values, without the single operators."""
    return {
        "batch": capture.batch,
        "operators": len(capture.operators),
        "method": capture.method.value,
        "flops": {phase.value: capture.flops(phase) for phase in Phase},
        "bytes": {phase.value: capture.bytes(phase) for phase in Phase},
        "memory_bytes": capture.memory.total,
        "unknown": dict(capture.unknown),
        "unknown_share": capture.unknown_share,
        "notes": list(capture.notes),
    }


def step_json(estimate: StepEstimate) -> dict[str, Any]:
    """Returns one device's prediction as JSON values."""
    return {
        "device": estimate.machine.device.name,
        "precision": estimate.precision,
        "step_s": interval_json(estimate.seconds),
        "kappa": estimate.machine.kappa,
        "phases_s": {phase.value: estimate.phase_s(phase) for phase in Phase},
        "basis": estimate.machine.about,
    }


def run_json(run: RunEstimate) -> dict[str, Any]:
    """Returns the prediction for one device and number of workers as JSON values."""
    return {
        "device": run.step.machine.device.name,
        "gpus": run.sharing.workers,
        "step_s": interval_json(run.step_s),
        "epoch_s": interval_json(run.epoch_s),
        "total_s": interval_json(run.total_s),
        "cost_usd": interval_json(run.cost_usd) if run.cost_usd else None,
        "offer": run.offer.label(date.today()) if run.offer else None,
        "memory_gb": run.memory_gb,
        "fits_memory": run.fits_memory,
        "basis": run.basis,
        "notes": list(run.notes),
    }


def step_table(estimates: Iterable[StepEstimate]) -> Table:
    """Builds a table with one row per device."""
    table = _table("device", "step p50 [p05 – p95]", "forward", "backward", "optimizer", "memory", "basis")
    for each in estimates:
        phases = [duration(each.phase_s(phase)) for phase in Phase]
        memory = f"{each.capture.memory.total / 1e9:.2f} GB"
        table.add_row(each.machine.device.name, spread(each.seconds), *phases, memory, each.machine.about)
    return table


def run_cells(runs: Sequence[RunEstimate]) -> tuple[list[str], list[list[str]]]:
    """Returns headings, and one row per device and number of workers."""
    headings = ["device", "GPUs", "step p50 [p05 – p95]", "epoch", "total", "cost p50 [p95]", "memory", "basis"]
    rows = [
        [
            each.step.machine.device.name,
            str(each.sharing.workers),
            spread(each.step_s),
            duration(each.epoch_s.middle),
            spread(each.total_s),
            _cost(each),
            "fits" if each.fits_memory else f"needs {each.memory_gb:.0f} GB",
            each.basis,
        ]
        for each in runs
    ]
    return headings, rows


def run_table(runs: Sequence[RunEstimate]) -> Table:
    """Builds a table with one row per device and number of workers."""
    headings, rows = run_cells(runs)
    table = _table(*headings)
    for row in rows:
        table.add_row(*row)
    return table


def device_table(devices: Iterable[Device]) -> Table:
    """Builds a table of devices with the origin and date of their figures."""
    table = _table("device", "memory", "bandwidth", "fp32", "bf16/fp16", "as of", "source")
    for each in devices:
        half = each.peak_tflops.get("bf16", each.peak_tflops.get("fp16"))
        table.add_row(
            each.name,
            f"{each.memory_gb:g} GB",
            f"{each.bandwidth_gb_per_s:g} GB/s",
            f"{each.peak_tflops['fp32']:g} TFLOP/s",
            "–" if half is None else f"{half:g} TFLOP/s",
            each.as_of,
            each.source,
        )
    return table


def _cost(run: RunEstimate) -> str:
    if run.cost_usd is None or run.offer is None:
        return "no price"
    return f"${run.cost_usd.middle:.2f} [${run.cost_usd.high:.2f}] ({run.offer.label(date.today())})"


def _table(*headings: str) -> Table:
    from rich.table import Table

    table = Table()
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place == 0 else "right", overflow="fold")
    return table
