"""The accelerators of this machine: found without initialising one, and named so that a worker can be given its own."""

from elastane.accelerators.device import Accelerator, Found, visible_as
from elastane.accelerators.discovery import discover

__all__ = ["Accelerator", "Found", "discover", "visible_as"]
