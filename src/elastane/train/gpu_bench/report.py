"""The report of ``elastane bench-gpu``: a text to paste, and the same as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from elastane import __version__
from elastane.train.errors import TrainError
from elastane.train.gpu_bench import communicators, moving, starting, training
from elastane.train.gpu_bench.findings import Check, Finding, Setting, State

CHECKS: Sequence[Check] = (
    Check(0, "versions and devices", starting.versions),
    Check(1, "first tensor of a fork", starting.first_tensor),
    Check(2, "all-reduce, staged and NCCL", moving.all_reduce),
    Check(3, "building a communicator", communicators.init),
    Check(4, "building one while training", communicators.standby),
    Check(5, "kill -9 in an all-reduce", communicators.kills),
    Check(6, "aborting two at once", communicators.two_aborts),
    Check(7, "copies to the host and back", moving.copies),
    Check(8, "memory full", starting.out_of_memory),
    Check(9, "resize 1, 2, 1", training.resize),
    Check(10, "consistent mode", training.consistent),
    Check(11, "throughput beside DDP", training.throughput),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A check and what it found."""

    check: Check
    finding: Finding

    def text(self) -> str:
        """For the report that is pasted."""
        found = self.finding
        expected = f" (expected: {found.expected})" if found.state is State.ODD else ""
        return (
            f"{self.check.number:>2}  {found.state.value:<3}  {self.check.title:<28}  {found.value}{expected}"
        )

    def to_json(self) -> dict[str, Any]:
        """The line as JSON values, with its figures."""
        found = self.finding
        return {
            "number": self.check.number,
            "title": self.check.title,
            "state": found.state.name.lower(),
            "value": found.value,
            "expected": found.expected,
            "facts": dict(found.facts),
        }


def examine(
    setting: Setting, checks: Sequence[Check] = CHECKS, begins: Callable[[Check], object] = lambda _: None
) -> Iterator[Line]:
    """Asks one after the other; a check that fails is odd, and the others go on."""
    for check in checks:
        begins(check)
        try:
            found = check.ask(setting)
        except TrainError as problem:
            found = Finding(State.ODD, str(problem), "it ends")
        yield Line(check, found)


def head() -> str:
    """The first line of a report."""
    return f"elastane {__version__} bench-gpu"


def well(lines: Sequence[Line]) -> bool:
    """Whether no line of a report is odd."""
    return all(line.finding.state is not State.ODD for line in lines)
