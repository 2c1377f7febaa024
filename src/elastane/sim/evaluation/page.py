"""Renders the evaluation as one HTML file without a script: sentences first, a picture, then every table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from elastane.kit.html_page import Page, filled, render, resource
from elastane.sim.evaluation.ablations import Ablation
from elastane.sim.evaluation.layout import Block, Line, block
from elastane.sim.evaluation.picture import dot_plot
from elastane.sim.evaluation.study import Study
from elastane.sim.evaluation.summary import sentences
from elastane.sim.evaluation.table import footnotes, with_verdict


def page(study: Study, ablations: Sequence[Ablation]) -> str:
    """Renders the whole HTML page."""
    protocol = study.protocol
    workloads = dict.fromkeys(cell.workload for cell in protocol.cells)
    facts = {
        "cluster": f"{protocol.gpus} GPUs ({protocol.cluster})",
        "seeds": ", ".join(map(str, protocol.seeds)),
        "restart": f"{protocol.restart_s:g} s",
        "rounds": f"{protocol.interval_s:g} s",
        "policies": ", ".join(protocol.policies),
    }
    values = {
        "reference": escape(protocol.reference),
        "summary": _items(sentences(study)),
        "notes": _items(study.notes()),
        "picture": dot_plot(study),
        "tables": "\n".join(_table(block(study, cell), protocol.reference) for cell in protocol.cells),
        "ablations": _ablations(ablations),
        "footnotes": _items(footnotes(study)),
    }
    return render(
        Page(
            f"Policies on {', '.join(workloads)}",
            "evaluation",
            facts,
            resource("elastane.sim.report", "page.css") + resource("elastane.sim.evaluation", "page.css"),
            filled(resource("elastane.sim.evaluation", "page.html"), values),
        )
    )


def _items(lines: Iterable[str]) -> str:
    return "".join(f"<li>{escape(line)}</li>" for line in lines)


def _section(title: str, headings: Iterable[str], rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col">{heading}</th>' for heading in headings)
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody>"
    table = f'<div class="scroll"><table class="summary">{body}</table></div>'
    return f"<section><h2>{escape(title)}</h2>{table}</section>"


def _table(shown: Block, reference: str) -> str:
    named = (f"{escape(name)}<small>{escape(symbol)}</small>" for name, symbol in shown.headings)
    headings = ("policy", *named, f"mean JCT against {escape(reference)}", "")
    rows = (_row(line) for line in (*shown.ranked, *shown.oracles))
    return _section(f"{shown.cell.title} (load {shown.cell.load:g}), {shown.jobs} jobs", headings, rows)


def _row(line: Line) -> str:
    badge = '<span class="badge">oracle</span>' if line.oracle else ""
    cells = [f'<th scope="row">{escape(line.policy)}{badge}</th>']
    for entry in line.entries:
        under = f"<small>{escape(entry.spread)}</small>" if entry.spread else ""
        leader = ' class="best"' if entry.best else ""
        cells.append(f"<td{leader}>{escape(entry.mean)}{under}</td>")
    cells += [f"<td>{escape(line.against)}</td>", f"<td>{escape(line.verdict)}</td>"]
    apart = ' class="oracle"' if line.oracle else ""
    return f"<tr{apart}>{''.join(cells)}</tr>"


def _ablations(ablations: Sequence[Ablation]) -> str:
    if not ablations:
        return ""
    rows = (
        f'<tr><th scope="row">{escape(each.variant.policy)}</th><td>{escape(each.variant.name)}</td>'
        f"<td>{escape(with_verdict(each.against_itself))}</td><td>{escape(with_verdict(each.against_pollux))}</td></tr>"
        for each in ablations
    )
    headings = ("policy", "variant", "against itself as it is", "against pollux, same change")
    return _section("Ablations: mean JCT", headings, rows)
