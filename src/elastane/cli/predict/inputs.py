"""From options to what they mean: machines and captured steps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elastane.predict.operators import StepCapture
    from elastane.predict.steps import Machine


def machines_for(names: str, device_file: Path | None, profile: Path | None) -> list[Machine]:
    """The machines that --device names, the local one from its profile."""
    from elastane.predict.devices import Device, catalog, find, load_devices
    from elastane.predict.probes import load_probes
    from elastane.predict.profile import default_path, load_profile, probes_path
    from elastane.predict.steps import Machine

    own = load_devices(device_file) if device_file else ()
    known = (*own, *catalog())
    path = profile or default_path()

    def card(device: Device) -> Machine:
        return Machine.from_catalog(device, load_probes(probes_path(device.name)))

    if names == "all":
        local = [Machine.local(load_profile(path))] if path.exists() else []
        return [*local, *(card(each) for each in known)]
    return [
        Machine.local(load_profile(path)) if name == "local" else card(find(name, known))
        for name in filter(None, (each.strip() for each in names.split(",")))
    ]


def captured_step(reference: str, batch: int) -> StepCapture:
    """The step of a user's job."""
    from elastane.predict.job import load_factory, require_torch

    require_torch()
    from elastane.predict.capturing import capture

    return capture(load_factory(reference), batch)
