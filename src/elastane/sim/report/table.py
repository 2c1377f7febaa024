"""Shows the comparison as a terminal table with footnotes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from elastane.sim.metrics import FAIRNESS_DEFINITION
from elastane.sim.report.columns import COLUMNS, Column, best, unit, written
from elastane.sim.report.compare import Row, notes, rows
from elastane.sim.result import RunResult


def comparison(results: Iterable[RunResult]) -> RenderableType:
    """Builds a table with policies as rows and figures as columns; below it parameters, definitions and caveats.

    Print it with ``rich.console.Console().print(comparison(results))``.
    """
    return _Comparison(rows(results))


@dataclass(frozen=True)
class _Comparison:
    """Chooses, when printed, the columns that fit: a cut number is worse than an absent one."""

    compared: tuple[Row, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        count, unbounded = len(COLUMNS), options.update(width=10_000)
        while count > 1 and Measurement.get(console, unbounded, self.table(count)).maximum > options.max_width:
            count -= 1
        yield self.table(count)
        lines = [*_parameters(self.compared), Text(" "), *_footnotes(self.compared, COLUMNS[count:])]
        yield from (Padding(line, (0, 0, 0, 1), expand=False) for line in lines)

    def table(self, count: int) -> Table:
        """Builds the table with the first ``count`` columns."""
        table = Table(box=SIMPLE_HEAD, title=_title(self.compared), title_justify="left", title_style="bold")
        table.add_column("\n\npolicy", overflow="fold", max_width=32)
        columns = [_cells(column, self.compared) for column in COLUMNS[:count]]
        for heading, _ in columns:
            table.add_column(heading, justify="right", no_wrap=True)
        for index, row in enumerate(self.compared):
            table.add_row(_name(row), *(cells[index] for _, cells in columns))
        return table


def _cells(column: Column, compared: Sequence[Row]) -> tuple[str, list[Text]]:
    """Returns a column's heading (three lines, to stay narrow) and one cell per policy."""
    as_unit, leaders = unit(column, compared), best(column, compared)
    cells = []
    for row in compared:
        mean, spread = written(row.figures[column.name], as_unit)
        star = "*" if column.of_finished and not row.complete else ""
        cell = Text(mean + star, "bold green" if row.policy in leaders else "")
        cells.append(cell.append(f"\n{spread}", "not bold dim default") if spread else cell)
    lines = [*column.title.split(" ", 1), *([as_unit.symbol] if as_unit.symbol else [])]
    return "\n" * (3 - len(lines)) + "\n".join(lines), cells


def settings(values: Mapping[str, object]) -> str:
    """Formats parameters as ``name=value`` in one line."""
    return ", ".join(f"{name}={_short(value)}" for name, value in values.items())


def _name(row: Row) -> Text:
    name = Text(row.policy)
    return name.append(" oracle", "dim italic") if row.first.oracle else name


def _title(compared: Sequence[Row]) -> Text:
    workloads = dict.fromkeys(run.workload for row in compared for run in row.runs)
    first = compared[0].first
    seeds = len({run.seed for row in compared for run in row.runs})
    tail = f", {seeds} seeds" if seeds > 1 else ""
    return Text(f"{' + '.join(workloads)}: {len(first.jobs)} jobs on {first.total_gpus} GPUs{tail}")


def _parameters(compared: Sequence[Row]) -> Iterator[Text]:
    width = max(len(row.policy) for row in compared)
    for row in compared:
        line = Text(f"{row.policy:<{width}}  ")
        yield line.append(settings(row.first.parameters) or "no parameters", "dim")


def _footnotes(compared: Sequence[Row], left_out: Sequence[Column]) -> Iterator[Text]:
    yield Text(f"ρ = {FAIRNESS_DEFINITION}.", "dim")
    if any(len(row.runs) > 1 for row in compared):
        yield Text("± is half the width of the 95 % interval of the mean over seeds.", "dim")
    if len({row.first.oracle for row in compared}) > 1:
        yield Text("An oracle reads the truth; the best value is marked among the others.", "dim")
    if left_out:
        titles = ", ".join(column.title for column in left_out)
        yield Text(f"A wider window also shows: {titles}.", "dim")
    yield from (Text(note, "yellow") for note in notes(compared))


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
