"""Shows the evaluation on a terminal, as tables and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from elastane.sim.evaluation.ablations import Ablation
from elastane.sim.evaluation.findings import written
from elastane.sim.evaluation.layout import Block, Line, block
from elastane.sim.evaluation.outcomes import MEAN_JCT
from elastane.sim.evaluation.statistics import Difference
from elastane.sim.evaluation.study import Study
from elastane.sim.evaluation.summary import sentences
from elastane.sim.metrics import FAIRNESS_DEFINITION


def tables(study: Study, ablations: Sequence[Ablation]) -> Iterator[RenderableType]:
    """Yields a table per cell, the ablations, then the summary, footnotes and notes."""
    for cell in study.protocol.cells:
        yield _table(block(study, cell), study.protocol.reference)
    if ablations:
        yield _ablations(ablations)
    yield Text(f"Where {study.protocol.reference} stands", "bold")
    yield from (Text(f"· {line}") for line in sentences(study))
    yield Text(" ")
    yield from (Text(line, "dim") for line in footnotes(study))
    yield from (Text(note, "yellow") for note in study.notes())


def footnotes(study: Study) -> list[str]:
    """Returns the meaning of the figures and the rules under which they were measured."""
    protocol = study.protocol
    seeds = len(protocol.seeds)
    between = (
        f"± and [ ]: 95 % intervals (Student t) over {seeds} seeds; differences are paired on the same jobs."
        if seeds > 1
        else "One seed only: there are no intervals, and nothing can be told for sure."
    )
    return [
        f"All policies: {protocol.cluster}, {protocol.restart_s:g} s for every start or move, decisions in rounds of "
        f"{protocol.interval_s:g} s only, epochs declared, speeds learned while running.",
        between,
        f"ρ = {FAIRNESS_DEFINITION}.",
    ]


def _table(shown: Block, reference: str) -> Table:
    title = f"{shown.cell.title} (load {shown.cell.load:g}): {shown.jobs} jobs"
    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", title_style="bold")
    table.add_column("\n\npolicy", overflow="fold")
    for name, symbol in shown.headings:
        first, _, rest = name.partition(" ")
        table.add_column("\n".join((first, rest, symbol)), justify="right", no_wrap=True)
    table.add_column(f"\nmean JCT\nagainst {reference}", justify="right")
    for line in shown.ranked:
        table.add_row(*_cells(line))
    if shown.oracles:
        table.add_section()
    for line in shown.oracles:
        table.add_row(*_cells(line))
    return table


def _cells(line: Line) -> list[Text]:
    name = Text(line.policy)
    if line.oracle:
        name.append(" oracle", "dim italic")
    cells = [name]
    for entry in line.entries:
        cell = Text(entry.mean, "bold green" if entry.best else "")
        cells.append(cell.append(f"\n{entry.spread}", "not bold dim default") if entry.spread else cell)
    return [*cells, Text(f"{line.against}\n{line.verdict}" if line.verdict else line.against)]


def _ablations(ablations: Sequence[Ablation]) -> Table:
    table = Table(box=SIMPLE_HEAD, title="Ablations: mean JCT", title_justify="left", title_style="bold")
    for heading in ("policy", "variant", "against itself as it is", "against pollux, same change"):
        table.add_column(heading)
    for each in ablations:
        table.add_row(
            each.variant.policy,
            each.variant.name,
            with_verdict(each.against_itself),
            with_verdict(each.against_pollux),
        )
    return table


def with_verdict(difference: Difference | None) -> str:
    """Formats a difference of mean JCT with its verdict."""
    if difference is None:
        return "–"
    return f"{written(difference, MEAN_JCT)} {difference.verdict(True).value}"
