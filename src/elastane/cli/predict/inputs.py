"""Resolves options of ``elastane predict`` to machines and captured steps."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.predict.operators import StepCapture
    from elastane.predict.steps import Machine


def machines_for(names: str, device_file: Path | None, profile: Path | None) -> list[Machine]:
    """Returns the machines that --device names, the local one from its profile."""
    from elastane.predict.devices import Device, catalog, find, load_devices
    from elastane.predict.outcomes import load_outcomes
    from elastane.predict.probes import load_probes
    from elastane.predict.profile import default_path, history_path, load_profile, probes_path
    from elastane.predict.steps import Machine

    own = load_devices(device_file) if device_file else ()
    known = (*own, *catalog())
    path, past = profile or default_path(), load_outcomes(history_path())

    def local() -> Machine:
        return Machine.local(load_profile(path)).after(past)

    def card(device: Device) -> Machine:
        return Machine.from_catalog(device, load_probes(probes_path(device.name))).after(past)

    def named(name: str) -> Device:
        try:
            return find(name, known)
        except ElastaneError as error:
            also = f"; {device_file} has none of that name either" if device_file else ""
            raise ElastaneError(f"{error}{also}") from None

    if names == "all":
        return [*([local()] if path.exists() else []), *(card(each) for each in known)]
    return [
        local() if name == "local" else card(named(name))
        for name in filter(None, (each.strip() for each in names.split(",")))
    ]


def captured_step(reference: str | None, batch: int, script: str | None = None) -> StepCapture:
    """Captures the step of a user's job, or of an unmodified script."""
    from elastane.predict.job import load_factory, require_torch

    require_torch()
    if script is not None and reference is None:
        from elastane.predict.capturing.scripted import capture_script

        path, *arguments = shlex.split(script) or [""]
        return capture_script(Path(path), arguments)
    from elastane.predict.capturing import capture

    return capture(load_factory(needed_job(reference, script)), batch)


def needed_job(reference: str | None, script: str | None = None) -> str:
    """Returns the reference to a job; a missing one, or a script beside it, is an ``ElastaneError``."""
    if reference is None:
        raise ElastaneError("name a job as MODULE:FUNCTION, or where it is allowed a script with --script")
    if script is not None:
        raise ElastaneError("give a job or --script, not both")
    return reference
