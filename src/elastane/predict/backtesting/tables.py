"""Shows the results of a backtest as tables for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from elastane.predict.backtesting.errors import Score
from elastane.predict.backtesting.held_out import HeldOut
from elastane.predict.backtesting.unseen import Unseen

if TYPE_CHECKING:
    from rich.table import Table


def held_out_table(found: Iterable[HeldOut]) -> Table:
    """Builds a table with a row per set and model; the best of each set is bold."""
    table = _table("Rows left out", "timings", "model")
    for each in found:
        for place, score in enumerate(each.scores):
            style = "bold" if score is each.best else None
            table.add_row(each.name if place == 0 else "", score.model, *_cells(score), style=style)
        table.add_section()
    return table


def unseen_table(found: Iterable[Unseen]) -> Table:
    """Builds a table with a row per card and model."""
    table = _table("Cards left out", "timings", "model")
    for each in found:
        for place, score in enumerate((each.paleo, each.plain, each.probed)):
            table.add_row(each.name if place == 0 else "", score.model, *_cells(score))
        table.add_section()
    return table


def backtest_json(rows: Iterable[HeldOut], cards: Iterable[Unseen]) -> dict[str, Any]:
    """Returns all figures of a backtest as JSON values."""
    return {"held_out": [asdict(each) for each in rows], "unseen_cards": [asdict(each) for each in cards]}


def _cells(score: Score) -> tuple[str, ...]:
    return (
        str(score.rows),
        f"{score.median:.1f}",
        f"{score.p90:.1f}",
        f"{score.mean:.1f}",
        f"{score.bias:+.1f}",
        f"{score.rmse_ms:.3g}",
        f"{score.covered:.0f}",
    )


def _table(title: str, *names: str) -> Table:
    from rich.table import Table

    table = Table(title=f"{title}: errors in % of the measured time")
    for name in names:
        table.add_column(name, overflow="fold")
    for heading in ("rows", "median", "p90", "mean", "bias", "RMSE ms", "90 % covers"):
        table.add_column(heading, justify="right")
    return table
