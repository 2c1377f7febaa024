"""A launch as a file: what the engine hands to the process that will run the attempt."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from elastane.engines.contract import Attempt, Cause, Launch
from elastane.engines.local.untrusted_files import UNREADABLE, clean
from elastane.engines.nodes.package_places import code_from_json, code_to_json
from elastane.jobs.declared import declared_from_json
from elastane.train.coordinator.job_user import Identity

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
        tenant=values["tenant"],
        declared=declared_from_json(values.get("declared", {})),
        python=str(values.get("python", "")),
        code=code_from_json(values.get("code")),
    )
    return launch, {str(node): int(count) for node, count in values["places"].items()}


def ended_json(cause: Cause, detail: str, code: int | None, at_s: float) -> dict[str, Any]:
    """The end of an attempt, for its folder."""
    return {"cause": cause.value, "detail": clean(detail), "code": code, "at_s": at_s}


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended."""

    cause: Cause
    detail: str
    code: int | None
    at_s: float


def ended_from_json(values: Mapping[str, Any] | None) -> Ended | None:
    """The inverse of ``ended_json``; None for what nobody who runs attempts would write."""
    if values is None:
        return None
    try:
        code = values["code"]
        known = isinstance(code, int) and abs(code) < _LARGEST_CODE
        return Ended(
            Cause(values["cause"]),
            clean(values["detail"]),
            code if known else None,
            moment(float(values["at_s"])),
        )
    except UNREADABLE:
        return None


def moment(at_s: float) -> float:
    """A time that somebody wrote down; what cannot have been yet is now."""
    now_s = time.time()
    return at_s if math.isfinite(at_s) and 0.0 <= at_s <= now_s + _AHEAD_S else now_s
