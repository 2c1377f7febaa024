"""Shows shares of a step's time on the terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from elastane.kit.durations import duration
from elastane.predict.explaining.shares import Share, Shares
from elastane.predict.operators import Phase
from elastane.predict.report import interval_json, spread
from elastane.predict.steps import StepEstimate

if TYPE_CHECKING:
    from rich.table import Table

_BAR = 24
_TAIL = 0.99


def shares_table(estimate: StepEstimate, shares: Shares) -> Table:
    """Builds a table of shares with bars; groups beyond 99 % are one row, unmodelled time is in the caption."""
    from rich.table import Table

    table = Table(title=f"{estimate.machine.device.name}: {spread(estimate.seconds)}")
    table.add_column(shares.by.value, overflow="fold")
    headings = ["calls", "time", "share", "cumulative", "GFLOP/s", "GB/s", "of roofline", "fwd/bwd/opt"]
    if shares.measured_s is not None:
        table.title = f"{table.title}, measured {duration(shares.measured_s)}"
        headings += ["measured", "share", "off"]
    for heading in headings:
        table.add_column(heading, justify="right")
    table.add_column("")
    last = next((n for n, each in enumerate(shares.rows, 1) if each.cumulative >= _TAIL), len(shares.rows))
    for each in shares.rows[:last]:
        table.add_row(each.name, *_cells(each, shares), "█" * round(_BAR * each.share))
    _rest(table, shares, last)
    table.caption = (
        f"{shares.needed(0.5)}, {shares.needed(0.9)} and {shares.needed(0.99)} of {len(shares.rows)} carry "
        f"50, 90 and 99 %; not modelled: {shares.unknown_s / shares.seconds:.1%}"
        + (f" ({', '.join(shares.names)})" if shares.names else "")
    )
    return table


def shares_json(estimate: StepEstimate, shares: Shares) -> dict[str, Any]:
    """Returns the figures of the table as JSON values."""
    return {
        "device": estimate.machine.device.name,
        "grouped_by": shares.by.value,
        "step_s": interval_json(estimate.seconds),
        "measured_s": shares.measured_s,
        "unmodelled_s": shares.unknown_s,
        "by": {each.name: each.seconds for each in shares.rows},
        "rows": [_row_json(each) for each in shares.rows],
    }


def _row_json(share: Share) -> dict[str, Any]:
    return {
        "name": share.name,
        "calls": share.calls,
        "seconds": share.seconds,
        "share": share.share,
        "cumulative": share.cumulative,
        "flops": share.flops,
        "bytes": share.bytes,
        "of_roofline": share.of_roofline,
        "phases_s": {phase.value: seconds for phase, seconds in share.phases.items()},
        "measured_s": share.measured_s,
    }


def _rest(table: Table, shares: Shares, last: int) -> None:
    rest = shares.rows[last:]
    if not rest:
        return
    seconds = sum(each.seconds for each in rest)
    cells = [
        str(sum(each.calls for each in rest)),
        duration(seconds),
        f"{seconds / shares.seconds:.1%}",
        "100.0%",
    ]
    empty = [""] * 4
    if shares.measured_s is not None:
        measured = sum(each.measured_s or 0.0 for each in rest)
        empty += [duration(measured), f"{measured / shares.measured_s:.1%}", _off(seconds - measured)]
    table.add_row(f"({len(rest)} more)", *cells, *empty, "")


def figures(share: Share) -> list[str]:
    """The cells of a share that tables in text and on pages have in common: calls, time and speeds."""
    return [
        str(share.calls),
        duration(share.seconds),
        f"{share.share:.1%}",
        f"{share.cumulative:.1%}",
        f"{share.gflops_per_s:.1f}",
        f"{share.gb_per_s:.1f}",
        f"{share.of_roofline:.0%}",
    ]


def _cells(share: Share, shares: Shares) -> list[str]:
    phases = "/".join(f"{100 * share.phases[phase] / share.seconds:.0f}" for phase in Phase)
    cells = [*figures(share), phases]
    if shares.measured_s is not None:
        seen = share.measured_s or 0.0
        cells += [duration(seen), f"{seen / shares.measured_s:.1%}", _off(share.off_s)]
    return cells


def _off(seconds: float) -> str:
    return f"{1e3 * seconds:+.2g} ms"
