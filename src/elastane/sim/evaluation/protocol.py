"""Defines the rules of an evaluation, equal for all policies, and the runs that follow from them.

Every policy meets the same jobs on the same cluster, learns speeds with the same fitter, pays the same for every start
and move, is placed by the same code, and decides in the same rounds: an arrival is noticed at the next round, by all.
Owners declare epochs.  Nothing is tuned to the workloads, and no job is left out of the figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from elastane.errors import ElastaneError
from elastane.sim.spec import RunSpec, parse_cluster
from elastane.sim.workloads.weeks import WEEKS
from elastane.simcore.physics import Physics
from elastane.suggest import did_you_mean

_POLLUX_JOBS_PER_GPU = 2.5  # 160 jobs for 64 GPUs, as published
_POLLUX_WIDEST = 48
_WEEK_LOADS = {"light": 0.5, "medium": 0.8, "heavy": 1.1}
"""Load of a week: GPU time asked for ÷ GPU time there is."""
_POLLUX_LOADS = {"light": 0.5, "medium": 1.0, "heavy": 2.0}
"""Multiples of the published number of jobs."""

WORKLOADS = (*WEEKS, "pollux", "pollux-realistic")


@dataclass(frozen=True, order=True)
class Cell:
    """One kind of workload at one load; ``label`` is what the user called the load."""

    workload: str
    label: str
    load: float

    @property
    def title(self) -> str:
        """The workload and its load, as tables name them."""
        return f"{self.workload} {self.label}"


@dataclass(frozen=True)
class Protocol:
    """The policies, workloads and seeds to compare, the cluster, and the physics."""

    policies: tuple[str, ...]
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]
    cluster: str = "8x4:t4"
    days: float = 1.5
    restart_s: float = 30.0
    interval_s: float = 120.0
    reference: str = "elastane"

    def __post_init__(self) -> None:
        if self.reference not in self.policies:
            known = ", ".join(self.policies)
            raise ElastaneError(f"--reference {self.reference} is not among the policies compared ({known})")
        tuned = [cell for cell in self.cells if cell.workload == "pollux"]
        if tuned and self.gpus < _POLLUX_WIDEST:
            raise ElastaneError(
                f"--workloads pollux has jobs of {_POLLUX_WIDEST} GPUs, --cluster {self.cluster} has {self.gpus}"
            )

    @property
    def gpus(self) -> int:
        """The number of GPUs of the cluster."""
        return parse_cluster(self.cluster).total_gpus

    def spec(self, policy: str, cell: Cell, seed: int) -> RunSpec:
        """Builds the run specification of one cell of the protocol."""
        return RunSpec(
            workload=self.workload(cell.workload, seed),
            policy=policy,
            cluster=self.cluster,
            physics=Physics(restart_s=self.restart_s, interval_s=self.interval_s, rounds_only=True),
            seed=seed,
            load=cell.load,
            # Of Pollux's realistic sizes, one job in thousands is wider than any small cluster; the notes count it.
            skip_bad=cell.workload == "pollux-realistic",
        )

    def workload(self, name: str, seed: int) -> str:
        """Returns the workload of one seed, as users write it."""
        if name in WEEKS:
            return f"{name}:{seed},gpus={self.gpus},days={self.days:g}"
        jobs = max(1, round(_POLLUX_JOBS_PER_GPU * self.gpus))
        return f"pollux:{seed},jobs={jobs}{',realistic' if name == 'pollux-realistic' else ''}"


def cells(workloads: str, loads: str) -> tuple[Cell, ...]:
    """Returns every workload at every load, both given as users write them."""
    names = _distinct("--workloads", workloads)
    for name in names:
        if name not in WORKLOADS:
            hint = did_you_mean(name, WORKLOADS)
            raise ElastaneError(f"--workloads: no workload {name!r}{hint} (known: {', '.join(WORKLOADS)})")
    wanted = _distinct("--loads", loads)
    return tuple(Cell(name, label, _load(name, label)) for name in names for label in wanted)


def _distinct(option: str, text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found or len(set(found)) < len(found):
        raise ElastaneError(f"{option} needs one or more different values, not {text!r}")
    return found


def _load(workload: str, label: str) -> float:
    named = _WEEK_LOADS if workload in WEEKS else _POLLUX_LOADS
    if label in named:
        return named[label]
    try:
        load = float(label)
    except ValueError:
        load = 0.0
    if not 0.0 < load < float("inf"):
        raise ElastaneError(f"--loads takes {', '.join(named)} or numbers above 0, not {label!r}")
    return load
