"""An objective leads from a problem to the fractions of time that its policy calls fair, fast or cheap."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from elastane.models.speed import FloatArray
from elastane.policies.gavel.problem import Problem


@dataclass(frozen=True)
class Case:
    """A problem with the names of its rows and columns, and what the objective noted at the last allocation."""

    problem: Problem
    jobs: tuple[str, ...]
    types: tuple[str, ...]
    notes: Mapping[str, Any]


@dataclass(frozen=True)
class Allocation:
    """X, and what is to be noted (JSON values)."""

    x: FloatArray
    notes: Mapping[str, Any]


class Objective(ABC):
    """One of the paper's policies.  ``fills`` tells whether jobs without a share may use GPUs left idle in a round."""

    fills: ClassVar[bool] = True

    def allocate(self, case: Case) -> Allocation:
        """The allocation for a case; most objectives have nothing to note."""
        return Allocation(self.shares(case.problem), {})

    @abstractmethod
    def shares(self, problem: Problem) -> FloatArray:
        """X, a row per job and a column per type."""


def runnable(problem: Problem) -> FloatArray:
    """1 for jobs that some type can run, 0 for the others: those must not hold back everybody's level."""
    return np.asarray(problem.allowed.any(axis=1), dtype=np.float64)
