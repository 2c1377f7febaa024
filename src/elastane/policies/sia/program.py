"""Solves Sia's integer program: which configuration each job gets this round.

p > 0:   max Σ G(j,c)^p · y(j,c) − λ · Σ_j (1 − Σ_c y(j,c))
p < 0:   min Σ G(j,c)^p · y(j,c) + λ · Σ_j (1 − Σ_c y(j,c))

y ∈ {0, 1},   Σ_c y(j,c) ≤ 1 for every job,   Σ GPUs ≤ R_τ for every type τ
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from elastane.models.speed import FloatArray
from elastane.policies.allocation.eviction import Configuration


@dataclass(frozen=True)
class Candidate:
    """A job's choices with their normalised goodputs (0: not feasible); ``fixed`` allows only the ``present`` one."""

    choices: tuple[Configuration, ...]
    goodput: FloatArray
    present: int | None = None
    fixed: bool = False


def costs(candidate: Candidate, p: float, penalty: float) -> FloatArray:
    """Returns what each choice costs over leaving the job out, the smaller the better; infinite if not feasible."""
    with np.errstate(divide="ignore"):
        worth = np.where(candidate.goodput > 0.0, candidate.goodput**p, np.nan)
    out = (worth if p < 0.0 else -worth) - penalty
    return np.where(np.isnan(out), np.inf, out)


def choose(
    candidates: Sequence[Candidate], gpus: Mapping[str, int], p: float, penalty: float, gap: float = 0.0
) -> list[int | None]:
    """Returns the place of every job's choice, None for a job left out; ``gap`` is the relative one of the solver.

    Between solutions of equal value those that leave jobs as they are win, by an advantage too small to matter.
    """
    entries = [
        (job, place, cost - (_TIE if place == each.present else 0.0))
        for job, each in enumerate(candidates)
        for place, cost in enumerate(costs(each, p, penalty))
        if np.isfinite(cost) and (not each.fixed or place == each.present)
    ]
    chosen: list[int | None] = [None] * len(candidates)
    if not entries:
        return chosen
    for entry in np.flatnonzero(_solve(entries, candidates, gpus, gap) > 0.5):
        job, place, _ = entries[entry]
        chosen[job] = place
    return chosen


_TIE = 1e-7

_QUIET = {
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
"""Heuristics of HiGHS that these programs do not need; they print to the standard output of the process."""


def _solve(
    entries: Sequence[tuple[int, int, float]],
    candidates: Sequence[Candidate],
    gpus: Mapping[str, int],
    gap: float,
) -> FloatArray:
    """Returns y for the entries (job, place, cost)."""
    jobs = np.array([job for job, _, _ in entries])
    taken = [candidates[job].choices[place] for job, place, _ in entries]
    kinds = {kind: number for number, kind in enumerate(gpus)}
    columns = np.arange(len(entries))
    one_each = csr_array((np.ones(len(entries)), (jobs, columns)), shape=(len(candidates), len(entries)))
    used = csr_array(
        (
            np.array([float(each.gpus) for each in taken]),
            (np.array([kinds[each.gpu_type] for each in taken]), columns),
        ),
        shape=(len(gpus), len(entries)),
    )
    fixed = np.array([1.0 if candidates[job].fixed else 0.0 for job in jobs])
    with warnings.catch_warnings():  # SciPy passes on what it does not know itself, and says so every time
        warnings.filterwarnings("ignore", message="Unrecognized options", category=RuntimeWarning)
        answer = milp(
            np.array([cost for _, _, cost in entries]),
            integrality=np.ones(len(entries), dtype=np.int64),
            bounds=Bounds(fixed, np.ones(len(entries))),
            constraints=[
                LinearConstraint(one_each, -np.inf, 1.0),
                LinearConstraint(used, -np.inf, np.array([float(number) for number in gpus.values()])),
            ],
            options={"mip_rel_gap": gap, **_QUIET},  # type: ignore[arg-type]
        )
    if answer.x is None:  # leaving out every job that is not fixed is always allowed
        raise ArithmeticError(f"the program of {len(entries)} choices was not solved: {answer.message}")
    out: FloatArray = answer.x
    return out
