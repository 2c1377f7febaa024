"""A launch as a file: what the engine hands to the process that will run the attempt."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from elastane.codec import encoded
from elastane.engines.contract import Attempt, Launch
from elastane.engines.local.untrusted_files import UNREADABLE, clean
from elastane.engines.nodes.package_places import code_from_json, code_to_json
from elastane.jobs.declared import declared_from_json
from elastane.train.coordinator.job_user import Identity
from elastane.train.exit_cause import ExitCause, ExitKind

_AHEAD_S = 60.0
_LARGEST_CODE = 1 << 31


def launch_to_json(
    launch: Launch, places: Mapping[str, int], identity: Identity | None = None
) -> dict[str, Any]:
    """JSON values, with the places to begin with and the user who shall run it."""
    values = asdict(launch)
    user = identity.to_json() if identity is not None else None
    declared = launch.declared.to_json()
    code = code_to_json(launch.code)
    whole = {**values, "folder": str(launch.folder), "run": str(launch.run), "declared": declared, "code": code}
    return {**whole, "places": dict(places), "identity": user}


def launch_from_json(values: Mapping[str, Any]) -> tuple[Launch, dict[str, int]]:
    """The inverse of ``launch_to_json``."""
    launch = Launch(
        attempt=Attempt(values["attempt"]["job"], int(values["attempt"]["number"])),
        name=values["name"],
        command=tuple(values["command"]),
        directory=values["directory"],
        folder=Path(values["folder"]),
        run=Path(values["run"]),
        kind=values["kind"],
        guessed=bool(values.get("guessed", False)),
        environment=dict(values["environment"]),
        most_workers=values["most_workers"],
        worker_slots=float(values.get("worker_slots", 1.0)),
        worker_memory_gb=float(values.get("worker_memory_gb", 0.0)),
        checkpoint_s=values["checkpoint_s"],
        checkpoints=str(values.get("checkpoints", "")),
        tenant=values["tenant"],
        declared=declared_from_json(values.get("declared", {})),
        python=str(values.get("python", "")),
        code=code_from_json(values.get("code")),
    )
    return launch, {str(node): int(count) for node, count in values["places"].items()}


def ended_json(exit: ExitCause, at_s: float) -> dict[str, Any]:
    """The end of an attempt, for its folder."""
    return {"exit": encoded(replace(exit, detail=clean(exit.detail), words="")), "at_s": at_s}


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    exit: ExitCause
    at_s: float


def ended_from_json(values: Mapping[str, Any] | None) -> Ended | None:
    """The inverse of ``ended_json``; None for what nobody who runs attempts would write."""
    if values is None:
        return None
    try:
        found = values["exit"] if "exit" in values else _written_before(values)
        exit = ExitCause(
            ExitKind(found["kind"]), _number(found["code"]), _number(found["signal"]), clean(found["detail"])
        )
        return Ended(exit, moment(float(values["at_s"])))
    except UNREADABLE:
        return None


def _number(code: object) -> int | None:
    return code if isinstance(code, int) and abs(code) < _LARGEST_CODE else None


_BEFORE = {"lost": ExitKind.NODE_LOST}
"""Words of earlier versions for what is an ``ExitKind`` of another name; a failure had two."""


def _written_before(values: Mapping[str, Any]) -> dict[str, Any]:
    """An end as earlier versions wrote it: an attempt may end under another version than it began under."""
    cause, code = str(values["cause"]), _number(values["code"])
    signal = -code if code is not None and code < 0 else None
    failed = ExitKind.GIVEN_UP if code is None else ExitKind.EXIT_CODE if signal is None else ExitKind.SIGNAL
    kind = failed if cause == "failed" else _BEFORE.get(cause, cause)
    return {"kind": kind, "code": None if signal else code, "signal": signal, "detail": values["detail"]}


def moment(at_s: float) -> float:
    """A time that somebody wrote down; what cannot have been yet is now."""
    now_s = time.time()
    return at_s if math.isfinite(at_s) and 0.0 <= at_s <= now_s + _AHEAD_S else now_s
