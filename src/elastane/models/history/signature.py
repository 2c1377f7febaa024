"""Describes a job as known at its submission, and computes the similarity of two jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass

_SAME_SCRIPT = 0.6  # with other arguments
_UNTOLD_ARGUMENTS = 0.8
_SAME_MODEL = 0.5  # in another script
_SAME_NAME = 0.3  # of another script
_ONLY_NAME = 0.8  # where a script is unknown
_OTHER_TENANT = 0.8
_OTHER_TYPES = 0.9

# Similarity falls to 1/e when two figures differ by this factor.
_BATCH_FACTOR = 64.0
_DATA_FACTOR = 8.0
_WORKERS_FACTOR = 256.0


@dataclass(frozen=True, slots=True)
class Signature:
    """A job at submission; what is not known is empty or 0.

    ``app`` is its name or application, ``script`` and ``config`` are digests of what runs and of its arguments,
    ``model`` describes the network, ``batch`` is the owner's own, ``data_size`` in samples, ``types`` are the
    accelerators it accepts.
    """

    app: str = ""
    tenant: str = "default"
    script: str = ""
    config: str = ""
    model: str = ""
    batch: int = 0
    data_size: int = 0
    workers: int = 0
    types: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if min(self.batch, self.data_size, self.workers) < 0:
            raise ValueError("batch, data_size and workers are 0 (not known) or more")

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """The keys a job is indexed by: two jobs that share none of them have similarity 0."""
        pairs = (("script", self.script), ("model", self.model), ("app", self.app))
        return tuple(pair for pair in pairs if pair[1])


def similarity(one: Signature, other: Signature) -> float:
    """Returns a similarity between 0 (nothing in common) and 1 (the same script, arguments and sizes)."""
    likeness = _kinship(one, other)
    if not likeness:
        return 0.0
    likeness *= _near(one.batch, other.batch, _BATCH_FACTOR)
    likeness *= _near(one.data_size, other.data_size, _DATA_FACTOR)
    likeness *= _near(one.workers, other.workers, _WORKERS_FACTOR)
    if one.tenant != other.tenant:
        likeness *= _OTHER_TENANT
    if one.types and other.types and not set(one.types) & set(other.types):
        likeness *= _OTHER_TYPES
    return likeness


def _kinship(one: Signature, other: Signature) -> float:
    """Returns the similarity of what runs (script, arguments, model, name), whatever it runs on."""
    same_model = bool(one.model) and one.model == other.model
    same_name = bool(one.app) and one.app == other.app
    if not (one.script and other.script):
        return _ONLY_NAME if same_model or same_name else 0.0
    if one.script != other.script:
        return _SAME_MODEL if same_model else _SAME_NAME if same_name else 0.0
    if one.config and other.config:
        return 1.0 if one.config == other.config else _SAME_SCRIPT
    return _UNTOLD_ARGUMENTS


def _near(one: int, other: int, factor: float) -> float:
    """Returns 1 for equal figures or where one is unknown; less the more they differ."""
    if not (one and other) or one == other:
        return 1.0
    return math.exp(-math.log(max(one, other) / min(one, other)) / math.log(factor))
