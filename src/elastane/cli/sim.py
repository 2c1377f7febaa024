"""``elastane sim``: policies on a workload, side by side."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from elastane.cli import lists, output
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.sim.result import RunResult
    from elastane.sim.spec import RunSpec

HELP = """Simulate policies on a workload and compare them.

WORKLOAD is a trace file (our own, Pollux/Sia, Philly, ITP, Helios, ACME, Gavel, Shockwave, Tiresias or Chronus format,
also .gz), pollux:SEED or optimus:SEED for a generated workload of the kind those evaluations used, philly:SEED,
helios:SEED or itp:SEED for a week like those clusters', or synth:NAME,jobs=N,days=D.  Behind any of them classes,
kinds, tenants and the like can be drawn, as in pollux:6,guaranteed=0.2,command=0.1,tenants=4 (docs/simulator.md).
"""

_SWEPT = {"load": "--load", "interval_s": "--interval", "interference": "--interference"}
"""What can take several values, and the option that says so."""


def command(
    workload: str = typer.Argument(
        ...,
        help="A trace file, pollux:SEED, optimus:SEED, philly:SEED (helios, itp), or synth:NAME,jobs=N,days=D.",
    ),
    policy: str = typer.Option("pollux,optimus,tiresias,fifo", help="Policies, separated by commas."),
    nodes: int = typer.Option(16, min=1, help="Number of nodes."),
    gpus_per_node: int = typer.Option(4, min=1, help="GPUs on each node."),
    gpu_type: str = typer.Option("t4", help="Accelerator of the built-in catalog."),
    cluster: str = typer.Option("", help="Mixed cluster instead, as in 6x4:t4,2x8:a100."),
    profiles: Path | None = typer.Option(
        None, help="Measured profiles (directory) or throughput table (file) as truth."
    ),
    compat: str | None = typer.Option(None, help="Physics of a published simulator: osdi21, gavel or sia."),
    interval: str | None = typer.Option(None, help="Round length in seconds; several values make a sweep."),
    restart: float = typer.Option(30.0, help="Seconds a job pays for every start or move."),
    interference: str = typer.Option("0", help="Slow-down of distributed jobs sharing a node; may be a sweep."),
    load: str = typer.Option("1", help="Multiplies the number of jobs; several values make a sweep."),
    noise: float = typer.Option(0.0, help="Relative error of measurements jobs report."),
    rigid: float = typer.Option(0.0, help="Fraction of jobs that cannot change their size."),
    fixed_batch: float = typer.Option(0.0, help="Fraction of jobs that cannot change their batch."),
    declare: str = typer.Option(
        "epochs", help="What owners say of a job's length: epochs, loss (a stop rule) or nothing."
    ),
    declare_error: float = typer.Option(
        0.0,
        "--declare-error",
        help="How wrong owners may be about a job's length: 0.4 is up to 40 %, either way.",
    ),
    failures: float = typer.Option(0.0, help="Node failures per 1000 node-days (published: 2 to 7)."),
    seed: str = typer.Option("0", help="Seed, or several separated by commas."),
    trace_format: str | None = typer.Option(None, "--format", help="Trace format, if it cannot be detected."),
    skip_bad: bool = typer.Option(
        False, "--skip-bad", help="Leave out bad rows and jobs that cannot run, and count them."
    ),
    history: Path | None = typer.Option(
        None, help="File of past jobs from which every new job is known (elastane history build)."
    ),
    record_history: Path | None = typer.Option(None, help="Write what these jobs leave behind, as history."),
    json_path: str | None = typer.Option(None, "--json", help="Write results as JSON; - for standard output."),
    html: Path | None = typer.Option(None, help="Write a self-contained HTML report."),
    jobs: int = typer.Option(0, "--jobs", min=0, help="Parallel processes; 0 uses all cores, 1 stays in one."),
    no_cache: bool = typer.Option(False, "--no-cache", help="Neither read nor write the cache of results."),
) -> None:
    """Run policies × seeds × sweep values and report."""
    from elastane.sim.spec import RunSpec, parse_cluster
    from elastane.simcore.physics import Physics

    output.check_targets(json_path, html, record_history)
    names, numbers = lists.policies(policy), lists.seeds(seed)
    points = _points(load, interval, interference)
    swept = _swept(points)
    where = cluster or f"{nodes}x{gpus_per_node}:{gpu_type}"
    parse_cluster(where)
    base = RunSpec(
        workload=workload,
        policy=names[0],
        cluster=where,
        profiles=str(profiles) if profiles else None,
        compat=compat,
        physics=Physics(restart_s=restart, observation_noise=noise),
        rigid=rigid,
        fixed_batch=fixed_batch,
        declare=declare,
        declare_error=declare_error,
        failures_per_1000_node_days=failures,
        format=trace_format,
        skip_bad=skip_bad,
        history=str(history) if history else None,
    )
    specs = [
        replace(point.applied(base), policy=name, seed=number)
        for point in points
        for name in names
        for number in numbers
    ]
    results = run(specs, jobs, not no_cache, quiet=json_path == output.STDOUT)
    output.report(results, json_path, html, swept)
    if record_history:
        output.record_history(results, record_history)


@dataclass(frozen=True)
class _Point:
    """One combination of the options that can be swept."""

    load: float
    interval_s: float | None
    interference: float

    def applied(self, spec: RunSpec) -> RunSpec:
        """Make the run at this point of the sweep."""
        physics = replace(spec.physics, interval_s=self.interval_s, interference=self.interference)
        return replace(spec, load=self.load, physics=physics)


def _points(load: str, interval: str | None, interference: str) -> list[_Point]:
    """Combine the values of the three options that can be swept."""
    rounds = [None] if interval is None else lists.numbers("--interval", interval)
    slowdowns = lists.numbers("--interference", interference)
    return [_Point(*each) for each in itertools.product(lists.numbers("--load", load), rounds, slowdowns)]


def _swept(points: Sequence[_Point]) -> str | None:
    """Find the physics parameter that takes several values; at most one may."""
    varying = [name for name in _SWEPT if len({getattr(point, name) for point in points}) > 1]
    if len(varying) > 1:
        options = " and ".join(_SWEPT[name] for name in varying)
        raise ElastaneError(f"only one option can take several values in one run, not {options} together")
    return varying[0] if varying else None


def run(specs: list[RunSpec], processes: int, use_cache: bool, quiet: bool = False) -> list[RunResult]:
    """Run all with a progress bar on standard error."""
    from elastane.sim.run_many import simulate_all

    with output.progress("jobs", quiet) as bar:
        tasks = [bar.add_task(_title(spec, specs), total=None) for spec in specs]

        def show(index: int, done: int, total: int) -> None:
            bar.update(tasks[index], completed=done, total=total)

        return simulate_all(specs, processes or os.cpu_count() or 1, use_cache, show)


def _title(spec: RunSpec, specs: list[RunSpec]) -> str:
    """Label a run: its policy and whatever else differs between the runs."""
    parts = [spec.policy]
    for label, value, everyone in (
        ("seed", spec.seed, {s.seed for s in specs}),
        ("load", spec.load, {s.load for s in specs}),
        ("interval", spec.physics.interval_s, {s.physics.interval_s for s in specs}),
        ("interference", spec.physics.interference, {s.physics.interference for s in specs}),
    ):
        if len(everyone) > 1:
            parts.append(f"{label} {value}")
    return " ".join(map(str, parts))
