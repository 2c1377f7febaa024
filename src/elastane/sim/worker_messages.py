"""Defines every message between ``run_many`` and its worker processes."""

from __future__ import annotations

from typing import Any, get_args

from elastane.kit.tagged_json import Lines, Tagged


class Simulate(Tagged, frozen=True, tag="simulate"):
    """Simulate a spec (``serialize.spec_to_plain``)."""

    spec: dict[str, Any]


class Progress(Tagged, frozen=True, tag="progress"):
    """So many jobs of the run have ended."""

    done: int
    total: int


class Result(Tagged, frozen=True, tag="result"):
    """The run is over (``serialize.result_to_plain``)."""

    result: dict[str, Any]


class Mistake(Tagged, frozen=True, tag="mistake"):
    """The spec cannot be simulated: a user's mistake, in a sentence."""

    error: str


FromWorker = Progress | Result | Mistake
TO_WORKER: Lines[Simulate] = Lines(Simulate)
FROM_WORKER: Lines[FromWorker] = Lines(*get_args(FromWorker))
