"""Runs the same scripts without Elastane, one process each, as the baseline of their accuracy."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence

from elastane.demo.cast import Role
from elastane.demo.scores import accuracy_in
from elastane.demo.stage import Stage

_LONGEST_S, _LOOK_S = 150.0, 0.1


def run_alone(
    stage: Stage, cast: Sequence[Role], tell: Callable[[str, float | None], None]
) -> dict[str, float | None]:
    """Returns accuracies by name and passes each to ``tell`` as soon as it is known; runs one script per core."""
    waiting, running = list(cast), list[tuple[Role, subprocess.Popen[bytes]]]()
    scores: dict[str, float | None] = {}
    deadline = time.monotonic() + _LONGEST_S
    while (waiting or running) and time.monotonic() < deadline:
        for role in [role for role, process in running if process.poll() is not None]:
            scores[role.name] = accuracy_in(stage.workplace(f"alone-{role.name}"))
            tell(role.name, scores[role.name])
        running = [(role, process) for role, process in running if role.name not in scores]
        while waiting and len(running) < len(os.sched_getaffinity(0)):
            role = waiting.pop(0)
            running.append((role, _start(stage, role)))
        time.sleep(_LOOK_S)
    return {role.name: scores.get(role.name) for role in cast}


def _start(stage: Stage, role: Role) -> subprocess.Popen[bytes]:
    # Found by its environment and ended with everything else if the demo is interrupted.
    place = stage.workplace(f"alone-{role.name}")
    with (place / "output.txt").open("wb") as output:
        return subprocess.Popen(  # noqa: S603
            role.command,
            cwd=place,
            env={**stage.environment(), **role.alone},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
