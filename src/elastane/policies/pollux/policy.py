"""Pollux (OSDI'21): divide GPUs so that the power mean of all jobs' goodput speed-ups is largest.

Jobs choose their own batch for what they get.  ``search=solver`` (the default) solves the count problem exactly or
nearly so and packs the answer; ``search=genetic`` is the published genetic algorithm over whole placements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from elastane.policies.allocation.problem import build_problem
from elastane.policies.allocation.solve_and_compare import (
    as_rows,
    counts_of,
    explain,
    grants_of,
    improves,
    solve,
)
from elastane.policies.contract import Needs, Policy
from elastane.policies.options import OptionError
from elastane.policies.plan import Exact, Plan
from elastane.policies.pollux.genetic import evolve
from elastane.policies.view import Info, View


@dataclass(frozen=True)
class Pollux(Policy):
    """Co-adaptive scheduling for goodput.

    Attributes:
        p: Exponent of the power mean; more negative is fairer.
        search: ``solver`` or ``genetic``.
        delay_s: Restart time δ assumed in the discount for moving.
        explore: A job may get at most this many times the GPUs it was ever seen with.
        fair_on_one_node: Value the fair share as if it stood on one node, as the published code does.
        population: Of the genetic search.
        generations: Of the genetic search.
    """

    p: float = -1.0
    search: str = "solver"
    delay_s: float = 30.0
    explore: float = 2.0
    fair_on_one_node: bool = True
    population: int = 100
    generations: int = 100

    name: ClassVar[str] = "pollux"
    title: ClassVar[str] = "Pollux"
    paper: ClassVar[str] = "Qiao et al., OSDI'21"
    needs: ClassVar[Needs] = Needs(
        info=Info.SPEED, period_s=60.0, on_arrival=False, on_finish=False, rebatch=True
    )
    elastic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.search not in ("solver", "genetic"):
            raise OptionError(f"pollux: search must be solver or genetic, not {self.search!r}")
        if self.population < 2 or self.generations < 1:
            raise OptionError("pollux: a genetic search needs a population of 2 and 1 generation at least")

    def decide(self, view: View) -> Plan:
        """Search for a better division, and keep the present one if there is none."""
        problem = build_problem(view, self.p, self.delay_s, self.fair_on_one_node, self.explore)
        memory: dict[str, Any] | None = None
        if self.search == "genetic":
            rows, memory = evolve(problem, view.memory, self.population, self.generations, view.seed)
        else:
            rows = solve(problem)
        if not improves(problem, rows):
            rows = as_rows(problem.held)
        return Plan(Exact(grants_of(problem, rows)), explain=explain(problem, counts_of(rows)), memory=memory)
