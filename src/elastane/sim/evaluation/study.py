"""Runs an evaluation and answers questions about its runs: figures with intervals, paired differences, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from elastane.policies.registry import make_policy
from elastane.sim.evaluation.outcomes import Measure, Outcome, outcome_of
from elastane.sim.evaluation.protocol import Cell, Protocol
from elastane.sim.evaluation.statistics import Difference, paired
from elastane.sim.report.compare import Figure, figure
from elastane.sim.result import RunResult
from elastane.sim.run_many import simulate_each
from elastane.sim.spec import RunSpec
from elastane.sim.workloads.trace import Omission

Runner = Callable[[Sequence[RunSpec], Callable[[int, RunResult], None]], None]
"""Simulates all specs and hands over each result with its index."""


@dataclass(frozen=True)
class Study:
    """All outcomes of a protocol: by cell and policy, in the order of its seeds."""

    protocol: Protocol
    outcomes: Mapping[tuple[Cell, str], tuple[Outcome, ...]]

    @property
    def honest(self) -> tuple[str, ...]:
        """Policies that have to estimate what they do not know: only these are ranked."""
        return tuple(name for name in self.protocol.policies if not is_oracle(name))

    @property
    def oracles(self) -> tuple[str, ...]:
        """Policies that read the truth."""
        return tuple(name for name in self.protocol.policies if is_oracle(name))

    def values(self, cell: Cell, policy: str, measure: Measure) -> list[float | None]:
        """Returns the values of one measure, by seed."""
        return [outcome.figures[measure.name] for outcome in self.outcomes[cell, policy]]

    def figure(self, cell: Cell, policy: str, measure: Measure) -> Figure | None:
        """Returns the mean of one measure over seeds, with its interval."""
        return figure(self.values(cell, policy, measure))

    def difference(self, cell: Cell, policy: str, measure: Measure) -> Difference | None:
        """Compares a policy with the reference on the same jobs."""
        reference = self.values(cell, self.protocol.reference, measure)
        return paired(self.values(cell, policy, measure), reference, measure.relative)

    def notes(self) -> tuple[str, ...]:
        """Returns notes on runs whose jobs did not all finish, or were left out."""
        said: dict[str, None] = {}
        for (cell, policy), outcomes in self.outcomes.items():
            left = sum(outcome.unfinished for outcome in outcomes)
            if left:
                said[f"{cell.title}: {policy} left {left} jobs unfinished and is not ranked there"] = None
            for outcome in outcomes:
                said |= dict.fromkeys(
                    f"{cell.title}: {note}" for note in outcome.notes if isinstance(note, Omission)
                )
        return tuple(said)


def is_oracle(policy: str) -> bool:
    """Tells whether a policy, as written, reads the truth."""
    return make_policy(policy).needs.oracle


def evaluate(protocol: Protocol, run: Runner) -> Study:
    """Runs every policy on every cell and seed."""
    keys = [(cell, policy) for cell in protocol.cells for policy in protocol.policies]
    specs = [protocol.spec(policy, cell, seed) for cell, policy in keys for seed in protocol.seeds]
    outcomes = outcomes_of(specs, run)
    each = len(protocol.seeds)
    return Study(protocol, {key: tuple(outcomes[i * each : (i + 1) * each]) for i, key in enumerate(keys)})


def outcomes_of(specs: Sequence[RunSpec], run: Runner) -> list[Outcome]:
    """Returns the figures of all runs in their order; each run itself is dropped as soon as it is read."""
    found: dict[int, Outcome] = {}

    def read(index: int, result: RunResult) -> None:
        found[index] = outcome_of(result)

    run(specs, read)
    return [found[index] for index in range(len(specs))]


def in_processes(processes: int, use_cache: bool) -> Runner:
    """Makes a runner that simulates in parallel processes, without a progress bar."""
    return lambda specs, read: simulate_each(specs, processes, use_cache, read)
