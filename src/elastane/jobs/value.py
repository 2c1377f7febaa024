"""A utility says what a job is worth to its owner, as a function of how long after submission it completes.

Never negative and never rising with time: pricing policies rely on both.  Credits are the unit of worth.

``linear`` (full worth until a time, then a penalty per hour, floor 0) is what most people mean.  ``sigmoid``
is here to reproduce papers: at its own target time it is worth only half.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from elastane.jobs.fields import Seconds, Section
from elastane.jobs.problems import conflict, expected

_HOUR_S = 3600.0
_LARGEST_EXPONENT = 700.0  # e^709 is the last that a float holds; worth is nothing long before

Worth = Annotated[float, Field(ge=0, le=1e12)]
"""An amount of credits."""


class Utility(Section):
    """A non-negative, non-increasing function of completion time."""

    worth: Worth = Field(description="Credits that completion in good time is worth.")

    @abstractmethod
    def at(self, seconds: float) -> float:
        """Worth in credits of completing ``seconds`` after submission."""


class Constant(Utility):
    """The same worth whenever the job completes."""

    shape: Literal["constant"] = Field(description="The same worth whenever the job completes.")

    def at(self, seconds: float) -> float:  # noqa: ARG002
        """The worth, at any time."""
        return self.worth


class Linear(Utility):
    """Full worth until a time, then a steady loss, never below nothing."""

    shape: Literal["linear"] = Field(description="Full worth until a time, then a steady loss down to nothing.")
    until: Seconds = Field(default=0.0, description="How long after submission the full worth lasts.")
    per_hour: Worth = Field(description="Credits lost per hour of lateness.")

    def at(self, seconds: float) -> float:
        """``max(0, worth − per_hour · lateness)``."""
        if seconds <= self.until or not self.per_hour:
            return self.worth
        return max(0.0, self.worth - self.per_hour * (seconds - self.until) / _HOUR_S)


class Step(Utility):
    """Full worth until a deadline, less (by default nothing) afterwards."""

    shape: Literal["step"] = Field(description="Full worth until a deadline, less afterwards.")
    until: Seconds = Field(description="How long after submission the full worth lasts.")
    after: Worth = Field(default=0.0, description="Credits that a late completion is still worth.")

    @model_validator(mode="after")
    def _falls(self) -> Step:
        if self.after > self.worth:
            raise conflict(f"after ({self.after:g}) may not exceed worth ({self.worth:g}): worth never rises")
        return self

    def at(self, seconds: float) -> float:
        """``worth`` up to and including ``until``, then ``after``."""
        return self.worth if seconds <= self.until else self.after


class Sigmoid(Utility):
    """OASiS's utility γ₁ / (1 + e^{γ₂ (t − γ₃)}) (INFOCOM'18).

    | symbol | field | unit |
    |---|---|---|
    | γ₁ | ``worth`` | credits |
    | γ₂ | ``steepness`` | 1/hour; 0 does not care about time, 4 and more is time-critical |
    | γ₃ | ``target`` | seconds after submission |
    """

    shape: Literal["sigmoid"] = Field(description="OASiS's smooth fall around a target time.")
    steepness: float = Field(ge=0, le=1e6, description="How sharply worth falls around the target, per hour.")
    target: Seconds = Field(description="Time after submission at which half of the worth is left.")

    def at(self, seconds: float) -> float:
        """The formula above; ``worth`` / 2 at the target."""
        if not self.steepness:
            return self.worth / 2  # also for an infinite time, where 0 · ∞ has no value
        late = self.steepness * (seconds - self.target) / _HOUR_S
        return self.worth / (1.0 + math.exp(min(late, _LARGEST_EXPONENT)))


def _from_number(written: object) -> object:
    if isinstance(written, int | float) and not isinstance(written, bool):
        return {"shape": "constant", "worth": written}
    if isinstance(written, dict | Section):
        return written
    raise expected("a number of credits, or a section with shape and worth")


Value = Annotated[
    Constant | Linear | Step | Sigmoid, Field(discriminator="shape"), BeforeValidator(_from_number)
]
"""A utility as written in a spec: a number, or a section with its ``shape``."""
