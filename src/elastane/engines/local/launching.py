"""A launch as a file: what the engine hands to the process that will run the attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from elastane.cluster import Grant
from elastane.engines.contract import Attempt, Cause, Launch


def launch_to_json(launch: Launch, places: Mapping[str, int]) -> dict[str, Any]:
    """JSON values, with the places to begin with."""
    values = asdict(launch)
    return {**values, "folder": str(launch.folder), "run": str(launch.run), "places": dict(places)}


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
        checkpoint_s=values["checkpoint_s"],
        tenant=values["tenant"],
    )
    return launch, {str(node): int(count) for node, count in values["places"].items()}


def places_of(grant: Grant) -> dict[str, int]:
    """Workers by node."""
    return {part.node: part.workers for part in grant.slices if part.workers}


def ended_json(cause: Cause, detail: str, code: int | None, at_s: float) -> dict[str, Any]:
    """The end of an attempt, for its folder."""
    return {"cause": cause.value, "detail": detail, "code": code, "at_s": at_s}
