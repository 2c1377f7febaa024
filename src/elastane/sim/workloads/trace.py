"""Every loader and generator produces a trace: jobs as published, before any ground truth is attached."""

from __future__ import annotations

from dataclasses import dataclass

from elastane.jobs.kinds import Kind


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One row of a trace.

    ``gpus`` and ``batch`` are what the owner asked for.  ``app`` names a catalog application; None lets the
    simulator choose one by GPU hours.  With ``duration_s`` the work is scaled so that the job, on ``gpus`` GPUs
    and undisturbed, takes that long; without it the application's own work to its target is done.
    ``deadline_s`` is absolute, on the clock of ``submit_s``.  ``skew`` is the share of the model's largest tensor,
    None where the trace does not tell.  ``data_gb`` of training data lie in ``data_zone`` and must be brought to
    the zone of the nodes before the first start.  ``kind`` None leaves it to the run (``--rigid``, ``--fixed-batch``).
    A trace that counts ``steps`` of a ``job_type`` says nothing of time; ``slo`` is then a deadline as a multiple of
    the run time.
    """

    id: str
    submit_s: float
    gpus: int = 1
    app: str | None = None
    batch: int | None = None
    duration_s: float | None = None
    tenant: str = "default"
    deadline_s: float | None = None
    weight: float = 1.0
    priority: int = 0
    skew: float | None = None
    data_zone: str = ""
    data_gb: float = 0.0
    klass: str = "normal"
    kind: Kind | None = None
    job_type: str | None = None
    steps: float | None = None
    slo: float | None = None

    @property
    def label(self) -> str:
        """As a message names the job: on one line, whatever the trace calls it."""
        plain = self.id.isprintable() and len(self.id) <= 80
        return f"job {self.id if plain else f'{self.id!r:.80}'}"


class Omission(str):
    """A note that says which jobs a run leaves out: its type tells it from other notes, not its words."""

    __slots__ = ()


@dataclass(frozen=True)
class Trace:
    """Jobs by submission time, where they came from, and how many rows were left out and why."""

    jobs: tuple[TraceJob, ...]
    source: str
    notes: tuple[str, ...] = ()
    skipped: int = 0
