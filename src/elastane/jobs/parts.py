"""The sections of a job spec.  Several may be written as a single number where that says it all."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from elastane.jobs.fields import Count, Filled, Gbps, Gigabytes, Name, Seconds, Section
from elastane.jobs.problems import conflict, expected
from elastane.resources import Resources


class Direction(Enum):
    """On which side of the target value training is done."""

    AT_LEAST = "at-least"
    AT_MOST = "at-most"


class Demand(Section):
    """Resources of one worker or one server."""

    gpus: int = Field(
        default=1, ge=0, le=1024, description="Accelerators (on a machine without any: CPU slots)."
    )
    cpus: float = Field(
        default=0.0, ge=0, le=1e6, description="CPU cores, counted against its node's; 0 leaves it to the node."
    )
    memory: Gigabytes = Field(default=0.0, description="Main memory; 0 leaves it to the node.")
    bandwidth: Gbps = Field(default=0.0, description="Network bandwidth; 0 leaves it to the node.")

    def vector(self) -> Resources:
        """Convert the section to the scheduler's resource vector."""
        return Resources(float(self.gpus), self.cpus, self.memory, self.bandwidth)


class _Range(Section):
    """How many tasks of one role."""

    min: Count = Field(default=1, description="Fewest that the job can run with.")
    max: Count | None = Field(
        default=None, description="Most that the job may get; none means as many as help."
    )

    @model_validator(mode="after")
    def _ordered(self) -> _Range:
        if self.max is not None and self.max < self.min:
            raise conflict(f"max ({self.max}) is below min ({self.min})")
        return self


class WorkerRange(_Range):
    """Workers: the tasks that compute gradients."""

    resources: Demand | None = Field(
        default=None, description="Needs of one worker; the same as resources of the job."
    )


class ServerRange(_Range):
    """Parameter servers: the tasks that keep the model for parameter-server training."""

    resources: Demand = Field(default=Demand(gpus=0, cpus=1.0), description="Needs of one server.")
    synchronous: bool = Field(default=True, description="Whether workers wait for each other after every step.")


class BatchRange(Section):
    """The batch section says which batch sizes keep the job learning, in samples."""

    size: int = Field(ge=1, le=2**31, description="Batch size that the learning rate was chosen for.")
    max: int | None = Field(
        default=None, ge=1, le=2**31, description="Largest total batch size; none means no limit."
    )
    per_gpu_min: int = Field(
        default=1, ge=1, le=2**31, description="Fewest samples on one accelerator per pass."
    )
    per_gpu_max: int | None = Field(
        default=None, ge=1, le=2**31, description="Most samples that fit on one accelerator per pass."
    )
    accumulation: bool = Field(default=True, description="Whether gradients may be summed over several passes.")
    fixed: bool = Field(
        default=False, description="Keep the total batch size as it is, whatever the worker count."
    )

    @model_validator(mode="after")
    def _consistent(self) -> BatchRange:
        if self.max is not None and self.max < self.size:
            raise conflict(f"max ({self.max}) is below size ({self.size})")
        if self.fixed and self.max not in (None, self.size):
            raise conflict(f"a fixed batch of {self.size} cannot grow to max ({self.max})")
        if self.per_gpu_max is not None and self.per_gpu_max < self.per_gpu_min:
            raise conflict(f"per_gpu_max ({self.per_gpu_max}) is below per_gpu_min ({self.per_gpu_min})")
        return self


class Target(Section):
    """The target section names a metric whose value ends training when it is reached."""

    metric: Name = Field(description="Name under which the script reports it, such as accuracy.")
    value: float = Field(description="Value to reach.")
    direction: Annotated[Direction, Field(strict=False)] | None = Field(
        default=None,
        description="at-least or at-most; none means at-most for losses and errors, else at-least.",
    )

    @property
    def falls(self) -> bool:
        """Tell whether lower values of the metric are better."""
        if self.direction is not None:
            return self.direction is Direction.AT_MOST
        return any(word in self.metric.lower() for word in ("loss", "error", "perplexity"))

    def reached(self, measured: float) -> bool:
        """Tell whether a measured value ends training."""
        return measured <= self.value if self.falls else measured >= self.value


class Checkpoint(Section):
    """The checkpoint section says how often work is saved."""

    path: Filled | None = Field(
        default=None,
        description="Where a resizable script keeps its own checkpoints; none: Elastane keeps them.",
    )
    every: Seconds = Field(default=600.0, description="Longest time between two checkpoints.")
    keep: Count = Field(default=2, description="How many of the latest checkpoints to keep.")


class DataSet(Section):
    """Where the training data is; bringing it elsewhere takes time before the first start."""

    zone: Name = Field(description="Zone that holds the data.")
    gb: Gigabytes = Field(description="Size of the data.")


class Interpreter(Section):
    """The Python interpreter of a job's script, and what is known of it.  ``elastane submit`` fills it in."""

    path: Filled = Field(description="Where it is; what it imports is decided by where it is called from.")
    elastane: Annotated[str, Field(max_length=100)] | None = Field(
        default=None, description="Version of Elastane that it can import: empty is none, null is not known."
    )
    torch: bool | None = Field(default=None, description="Whether it has PyTorch; null is not known.")


def _short(*fields: str) -> BeforeValidator:
    """Lets a whole number stand for a section that only sets these fields."""

    def widen(written: object) -> object:
        if type(written) is int:
            return dict.fromkeys(fields, written)
        if isinstance(written, dict | Section):
            return written
        raise expected(f"a whole number, or a section with {' and '.join(fields)}")

    return BeforeValidator(widen)


Workers = Annotated[WorkerRange, _short("min", "max")]
"""A number of workers, or a section."""


def _path_alone(written: object) -> object:
    return {"path": written} if isinstance(written, str) else written


Python = Annotated[Interpreter, BeforeValidator(_path_alone)]
"""The path of an interpreter, or a section."""

Servers = Annotated[ServerRange, _short("min", "max")]
"""A number of parameter servers, or a section."""

BatchSize = Annotated[BatchRange, _short("size")]
"""A batch size, or a section."""
