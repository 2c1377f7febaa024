"""Finds an application's measured profiles on several accelerator types, in the layout of Sia's artifact (SOSP'23).

A directory per application holds ``placements-TYPE.csv`` and ``scalability-TYPE.csv`` for every type that was measured;
the validation runs hold for all types, because progress per step does not depend on the hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from elastane.errors import ElastaneError
from elastane.models.catalog import catalog
from elastane.models.goodput import BatchLimits, PerGpuMax
from elastane.sim.truth.measured import MeasuredApp
from elastane.sim.truth.pipelined import PipelinedApp, pipeline_width

MACHINES: Mapping[str, str] = {
    "t4": "aws",
    "v100": "azure",
    "a100": "dgx-ext",
    "rtx2080ti": "rtx",
    "rtx6000": "quad",
}
"""What Sia's files call the machines with each accelerator of the catalog; any other type is looked for by its name."""


@dataclass(frozen=True, eq=False)
class MeasuredTypes:
    """One application on every type of a cluster on which it was measured."""

    apps: Mapping[str, MeasuredApp]

    @property
    def reference(self) -> MeasuredApp:
        """The profiles on one of the types, for what does not depend on the hardware."""
        return next(iter(self.apps.values()))

    @property
    def types(self) -> tuple[str, ...]:
        """The types on which it was measured, by name."""
        return tuple(self.apps)

    def width_on(self, gpu_type: str) -> int:
        """Returns the GPUs of a replica: the stages of a pipeline, 1 for a data-parallel application."""
        app = self.apps[gpu_type]
        return app.width if isinstance(app, PipelinedApp) else 1

    @property
    def width(self) -> int:
        """The fewest GPUs that hold a whole replica on every type."""
        return max(self.width_on(kind) for kind in self.apps)

    def limits(self) -> BatchLimits:
        """Returns batch limits that hold on all types, with the larger memory of those that have more."""
        most = {kind: app.per_gpu_max for kind, app in self.apps.items()}
        least = max(app.per_gpu_min for app in self.apps.values())
        first, smallest = self.reference, min(most.values())
        larger = tuple(PerGpuMax(kind, size) for kind, size in sorted(most.items()) if size > smallest)
        return BatchLimits(first.initial, first.maximum, least, smallest, per_gpu_max_on=larger)


def is_typed(directory: Path) -> bool:
    """Tells whether the directory of an application has profiles per accelerator type."""
    return any(directory.glob("placements-*.csv"))


def measured_types(directory: Path, gpu_types: tuple[str, ...]) -> MeasuredTypes:
    """Reads the profiles of those of the types that were measured; none at all is an ``ElastaneError``."""
    files = {kind: machine for kind in gpu_types if (machine := _machine(directory, kind)) is not None}
    if not files:
        known = sorted(path.stem.removeprefix("placements-") for path in directory.glob("placements-*.csv"))
        raise ElastaneError(
            f"{directory} has no profiles on {' or '.join(gpu_types)} (measured: {', '.join(known)})"
        )
    return MeasuredTypes({kind: _app(directory, machine) for kind, machine in files.items()})


def _machine(directory: Path, gpu_type: str) -> str | None:
    """Returns the name of the type in the names of files; None if it was not measured."""
    names = (gpu_type, MACHINES.get(gpu_type, gpu_type))
    return next((name for name in names if (directory / f"placements-{name}.csv").is_file()), None)


def _app(directory: Path, machine: str) -> MeasuredApp:
    app = MeasuredApp(directory, _memory(directory.name, machine), machine)
    return PipelinedApp(directory, machine) if pipeline_width(app) > 1 else app


def _memory(app: str, machine: str) -> int | None:
    """Returns the most samples per GPU that the catalog knows to fit; None leaves it to what was measured."""
    known = catalog().get(app)
    kind = next((kind for kind, name in MACHINES.items() if name == machine), machine)
    return known.per_gpu[kind][1] if known and kind in known.per_gpu else None
