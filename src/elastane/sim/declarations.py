"""Owners declare the length of their jobs, rightly or wrongly.  The jobs are the same, whatever is said."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from zlib import crc32

import numpy as np

from elastane.errors import ElastaneError
from elastane.sim.truth.catalog_job import CatalogJob
from elastane.sim.truth.measured_job import MeasuredJob
from elastane.sim.truth.parameter_server import ServerJob
from elastane.simcore.job_run import Arrival
from elastane.suggest import did_you_mean


class Declaration(Enum):
    """What an owner declares about a job's length; a member's text is what one writes behind ``--declare``."""

    EPOCHS = "epochs"  # the whole work and run time, exactly
    LOSS = "loss"  # a rule by which the loss ends the job: the work is forecast from the losses it reports
    NOTHING = "nothing"

    @classmethod
    def parse(cls, text: str) -> Declaration:
        """The declaration of that name."""
        names = [member.value for member in cls]
        if text not in names:
            raise ElastaneError(
                f"unknown --declare {text!r}{did_you_mean(text, names)} (known: {', '.join(names)})"
            )
        return cls(text)

    def note(self, error: float = 0.0) -> str:
        """What a report has to say about it; owners are wrong by up to ``error`` of the truth."""
        if self is Declaration.EPOCHS and error > 0.0:
            return (
                f"owners declared work and run time of their jobs, wrong by up to {100 * error:g} % either way"
            )
        return _NOTES[self]


_NOTES = {
    Declaration.EPOCHS: "owners declared the exact work and run time of their jobs",
    Declaration.LOSS: "owners declared a stop rule only; remaining work was forecast from (made-up) loss curves",
    Declaration.NOTHING: "owners declared nothing about the length of their jobs",
}


def as_declared(arrival: Arrival, declaration: Declaration) -> Arrival:
    """A job whose owner would know everything, as an owner submits it who says only so much."""
    if declaration is Declaration.EPOCHS:
        return arrival
    silent = replace(arrival, declared_work=None, declared_s=None, stop=None)
    behaviour = arrival.behaviour
    if declaration is Declaration.NOTHING or not isinstance(behaviour, CatalogJob | MeasuredJob | ServerJob):
        return silent
    if not isinstance(behaviour, ServerJob):  # those report losses anyway
        behaviour = replace(behaviour, loss_seed=job_seed(arrival.id, arrival.submit_s))
    return replace(silent, behaviour=behaviour, stop=behaviour.stop)


def misjudged(arrival: Arrival, error: float) -> Arrival:
    """The same job with an owner who is wrong about its length: by a factor between 1 − error and 1 + error."""
    if error <= 0.0 or arrival.declared_work is None or arrival.declared_s is None:
        return arrival
    chance = np.random.default_rng(job_seed(arrival.id, arrival.submit_s)).random()
    factor = 1.0 + error * (2.0 * chance - 1.0)
    return replace(
        arrival, declared_work=arrival.declared_work * factor, declared_s=arrival.declared_s * factor
    )


def job_seed(job_id: str, submit_s: float) -> int:
    """Randomness that belongs to the job: the same for every policy and every seed of the simulation."""
    return crc32(f"{job_id}@{submit_s!r}".encode())
