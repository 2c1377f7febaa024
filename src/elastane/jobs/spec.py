"""The job spec: what a user writes to have something trained.  Only ``command`` is required.

Read one with :func:`elastane.jobs.load_spec`, which explains mistakes; the class raises pydantic's errors.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator, model_validator

from elastane.jobs.command import Command, name_of
from elastane.jobs.fields import Count, Deadline, Environment, Filled, Name, Names, Place, Section
from elastane.jobs.kinds import ONE_SIZE, JobClass, Kind
from elastane.jobs.parts import (
    BatchSize,
    Checkpoint,
    DataSet,
    Demand,
    Python,
    Servers,
    Target,
    WorkerRange,
    Workers,
)
from elastane.jobs.problems import conflict
from elastane.jobs.value import Value
from elastane.resources import Resources


class JobSpec(Section):
    """Everything a user can say about a job."""

    command: Command = Field(description="What to run: a line or a list of words; no shell is involved.")
    name: Name = Field(
        default="", validate_default=True, description="Name in lists; by default that of the script."
    )
    kind: Annotated[Kind, Field(strict=False)] = Field(
        default=Kind.AUTO,
        description="adaptive uses elastane.train, resizable restarts from its own checkpoint, rigid does so with"
        " one size, a command saves nothing; auto starts as a command and turns adaptive when the script calls"
        " elastane.train.",
    )
    workers: Workers = Field(
        default=WorkerRange(), description="How many workers; a number means exactly that many."
    )
    servers: Servers | None = Field(
        default=None, description="Parameter servers, for parameter-server training."
    )
    resources: Demand = Field(default=Demand(), description="Needs of one worker.")
    accelerators: Names = Field(default=(), description="Accelerator types the job can use; none means any.")
    batch: BatchSize | None = Field(default=None, description="Batch sizes that keep the job learning.")
    epochs: Count | None = Field(default=None, description="Passes over the data after which training ends.")
    target: Target | None = Field(default=None, description="Metric that ends training early once reached.")
    checkpoint: Checkpoint = Field(default=Checkpoint(), description="How work is kept safe.")
    checkpoints: Place | None = Field(
        default=None,
        description="Where scripts that use elastane.train save: s3://, gs://, file:// or an absolute path that all"
        " nodes reach; {job} stands for the job's id. None: the system's own place.",
    )
    klass: Annotated[JobClass, Field(strict=False)] = Field(
        default=JobClass.NORMAL, alias="class", description="guaranteed, normal or opportunistic."
    )
    priority: int = Field(default=0, ge=-1_000_000, le=1_000_000, description="Higher goes first among equals.")
    weight: float = Field(default=1.0, gt=0, le=1e6, description="Share relative to other jobs of the tenant.")
    preemptible: bool = Field(default=True, description="Whether the job may be suspended for another.")
    deadline: Deadline | None = Field(
        default=None, description="When the result is needed: time from submission or a date."
    )
    value: Value | None = Field(
        default=None, description="Credits that completion is worth, as a function of its time."
    )
    data: DataSet | None = Field(default=None, description="Where the training data is, and how much.")
    tenant: Name = Field(default="default", description="Who pays: a team or a person.")
    share_history: bool = Field(
        default=False, description="Whether jobs of other tenants may be predicted from this one."
    )
    env: Environment = Field(default={}, description="Environment variables of all tasks.")
    exported: Environment = Field(
        default={}, description="Variables taken along from whoever submitted; env wins over them."
    )
    python: Python | None = Field(
        default=None, description="Interpreter of the script; by default the one that the command finds."
    )
    retries: int = Field(
        default=0, ge=0, le=1000, description="Restarts after a failure of its own; lost nodes are free."
    )
    workdir: Filled | None = Field(
        default=None, description="Directory to run in; by default that of the submission."
    )

    @field_validator("name", mode="before")
    @classmethod
    def _name_by_command(cls, name: object, info: ValidationInfo) -> object:
        return name or name_of(info.data.get("command", ())) if isinstance(name, str) else name

    @model_validator(mode="after")
    def _consistent(self) -> JobSpec:
        most = self.workers.max
        if self.kind in ONE_SIZE and most not in (None, self.workers.min):
            what = "command" if self.kind is Kind.COMMAND else "rigid job"
            raise conflict(f"a {what} has one size, not workers from {self.workers.min} to {most}")
        if self.workers.resources is not None and self.resources != Demand():
            raise conflict("resources and workers.resources mean the same; keep one of them")
        return self

    @property
    def max_workers(self) -> int | None:
        """Most workers the job may ever get; None means as many as help."""
        return self.workers.min if self.kind in ONE_SIZE else self.workers.max

    @property
    def worker(self) -> Resources:
        """Needs of one worker."""
        return (self.workers.resources or self.resources).vector()

    @property
    def variables(self) -> dict[str, str]:
        """Merge the environment variables that the job brings along; ``env`` wins."""
        return {**self.exported, **self.env}

    def deadline_s(self, submitted_s: float) -> float | None:
        """The deadline on the clock (Unix seconds) that shows ``submitted_s`` at submission."""
        if isinstance(self.deadline, datetime):
            return self.deadline.timestamp()
        return None if self.deadline is None else submitted_s + self.deadline
