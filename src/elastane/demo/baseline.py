"""Runs the same scripts without Elastane, one process each, as the baseline of their accuracy."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from elastane.demo.cast import Role
from elastane.demo.stage import Stage

_LONGEST_S, _LOOK_S = 150.0, 0.1
_SCORE = re.compile(r"^epoch (\d+): accuracy ([0-9.]+)", re.MULTILINE)


def last_accuracy(texts: Iterable[str]) -> float | None:
    """Returns the accuracy of the last epoch in any of the outputs; None if none was printed."""
    scores = [(int(epoch), float(score)) for text in texts for epoch, score in _SCORE.findall(text)]
    return max(scores, key=lambda each: each[0])[1] if scores else None


def run_alone(
    stage: Stage, cast: Sequence[Role], tell: Callable[[str, float | None], None]
) -> dict[str, float | None]:
    """Returns accuracies by name and passes each to ``tell`` as soon as it is known; runs one script per core."""
    waiting, running = list(cast), list[tuple[Role, subprocess.Popen[bytes]]]()
    scores: dict[str, float | None] = {}
    deadline = time.monotonic() + _LONGEST_S
    while (waiting or running) and time.monotonic() < deadline:
        for role in [role for role, process in running if process.poll() is not None]:
            scores[role.name] = last_accuracy([_output(stage, role).read_text(errors="replace")])
            tell(role.name, scores[role.name])
        running = [(role, process) for role, process in running if role.name not in scores]
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            role = waiting.pop(0)
            running.append((role, _start(stage, role)))
        time.sleep(_LOOK_S)
    return {role.name: scores.get(role.name) for role in cast}


def _start(stage: Stage, role: Role) -> subprocess.Popen[bytes]:
    # Found by its environment and ended with everything else if the demo is interrupted.
    with _output(stage, role).open("wb") as output:
        return subprocess.Popen(  # noqa: S603
            role.command,
            cwd=stage.workplace(f"alone-{role.name}"),
            env={**stage.environment(), **role.alone},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _output(stage: Stage, role: Role) -> Path:
    return stage.workplace(f"alone-{role.name}") / "output.txt"
