"""``elastane bench policies``: policies compared under one protocol, with intervals, and where ours is not best."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.cli import lists, output
from elastane.errors import ElastaneError
from elastane.suggest import did_you_mean

if TYPE_CHECKING:
    from rich.progress import Progress

    from elastane.sim.evaluation import Size, Study
    from elastane.sim.evaluation.ablations import Ablation
    from elastane.sim.evaluation.study import Runner
    from elastane.sim.result import RunResult
    from elastane.sim.spec import RunSpec

HELP = """Compare policies on several workloads, loads and seeds, and say where the reference is not best.

Everybody meets the same jobs, physics and cluster.  --size quick takes about a minute, normal about 15 minutes on one
core (ablations: as long again), full a day.  Finished runs are kept: the same command goes on where it was interrupted.
Workloads: philly, helios and itp (weeks like those traces), pollux and pollux-realistic.  Loads: light, medium, heavy
(0.5, 0.8 and 1.1 of the GPU time there is; of the pollux workloads, 0.5, 1 and 2 times the published number of jobs).
"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Evaluations.")


@app.command("policies", help=HELP)
def policies_command(
    size: str = typer.Option("normal", help="quick, normal or full; sets what is not given below."),
    quick: bool = typer.Option(False, "--quick", help="The same as --size quick."),
    policies: str | None = typer.Option(None, help="Policies, separated by commas, or all."),
    workloads: str | None = typer.Option(None, help="Workloads, separated by commas."),
    loads: str | None = typer.Option(None, help="Loads, separated by commas: names or numbers."),
    seeds: str | None = typer.Option(None, help="Seeds, as in 0-2 or 1,5."),
    reference: str = typer.Option("elastane", help="The policy that the others are held against."),
    cluster: str | None = typer.Option(None, help="Cluster, as in 8x4:t4."),
    days: float | None = typer.Option(None, help="Length of the philly, helios and itp workloads in days."),
    restart: float = typer.Option(30.0, help="Seconds a job pays for every start or move."),
    interval: float | None = typer.Option(None, help="Round length in seconds, for everybody."),
    ablations: bool = typer.Option(
        False, "--ablations", help="Also without history, length, hysteresis; other restarts; wrong estimates."
    ),
    workers: int = typer.Option(0, min=0, help="Parallel processes; 0 uses all cores, 1 stays in one."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of tables."),
    out: Path | None = typer.Option(None, "--out", "-o", help="Also write a report: FILE.html or FILE.json."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Neither read nor write the cache of results."),
) -> None:
    """Evaluate policies on workloads, loads and seeds, and report where the reference is not best."""
    from elastane.sim.evaluation import Protocol, evaluate
    from elastane.sim.evaluation.ablations import ablate
    from elastane.sim.evaluation.protocol import cells

    output.check_report(out)
    preset = _size("quick" if quick and size == "normal" else size)
    protocol = Protocol(
        policies=_policies(preset.policies if policies is None else policies, reference),
        cells=cells(
            preset.workloads if workloads is None else workloads, preset.loads if loads is None else loads
        ),
        seeds=tuple(lists.seed_ranges("--seeds", preset.seeds if seeds is None else seeds)),
        cluster=cluster or preset.cluster,
        days=preset.days if days is None else days,
        restart_s=restart,
        interval_s=preset.interval_s if interval is None else interval,
        reference=reference,
    )
    with output.progress("runs", quiet=as_json) as bar:
        study = evaluate(protocol, _runner("policies", bar, workers, not no_cache))
        taken_away = ablate(protocol, _runner("ablations", bar, workers, not no_cache)) if ablations else ()
    _report(study, taken_away, as_json, out)


def _size(name: str) -> Size:
    from elastane.sim.evaluation import SIZES

    if name not in SIZES:
        raise ElastaneError(f"--size is {', '.join(SIZES)}, not {name!r}{did_you_mean(name, SIZES)}")
    return SIZES[name]


def _policies(text: str, reference: str) -> tuple[str, ...]:
    """The policies as written, or all there are; the reference is always among them, and first."""
    from elastane.policies.registry import policy_names

    names = list(policy_names()) if text.strip() == "all" else lists.policies(text, "--policies")
    if len(lists.policies(reference, "--reference")) > 1:
        raise ElastaneError(f"--reference is one policy, not {reference!r}")
    return (reference, *(name for name in names if name != reference))


def _runner(title: str, bar: Progress, workers: int, use_cache: bool) -> Runner:
    """Simulates in processes and counts finished runs."""
    from elastane.sim.run_many import simulate_each

    def run(specs: Sequence[RunSpec], on_result: Callable[[int, RunResult], None]) -> None:
        task = bar.add_task(title, total=len(specs))

        def read(index: int, result: RunResult) -> None:
            on_result(index, result)
            bar.advance(task)

        simulate_each(specs, workers or os.cpu_count() or 1, use_cache, read)

    return run


def _report(study: Study, ablations: Sequence[Ablation], as_json: bool, out: Path | None) -> None:
    from rich.console import Console

    from elastane.sim.evaluation.document import document
    from elastane.sim.evaluation.page import page
    from elastane.sim.evaluation.table import tables

    text = json.dumps(document(study, ablations), indent=1, ensure_ascii=False, allow_nan=False)
    if as_json:
        typer.echo(text)
    else:
        console = Console()
        for part in tables(study, ablations):
            console.print(part)
    if out is not None:
        output.write_report(out, page(study, ablations) if out.suffix == ".html" else text + "\n")
