"""Says in one line that PyTorch is missing or of a version we do not work with, before anything fails by that.

``[project.optional-dependencies] torch`` in ``pyproject.toml`` has the same range.  Other versions are refused, not
tried: the training library uses hooks of PyTorch that it does not promise to keep.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, version

from elastane.train.errors import TrainError

OLDEST, BELOW = (2, 13), (3, 0)
"""The first version that will do, and the first above that will not."""

_INSTALL = "python -m pip install 'elastane[torch]'"


def check_torch() -> None:
    """Raise unless the PyTorch that would be imported here is one that we work with; imports nothing."""
    reason = why_not(installed_torch())
    if reason:
        raise TrainError(reason)


def installed_torch() -> str | None:
    """Its version as it calls itself, ``2.13.0+cpu``; None where there is none."""
    loaded = sys.modules.get("torch")
    if loaded is not None:
        return str(getattr(loaded, "__version__", ""))
    try:
        return version("torch")
    except PackageNotFoundError:
        return None


def why_not(found: str | None) -> str:
    """What is wrong with a version, and what to do; empty if nothing is."""
    wanted = f"elastane.train needs PyTorch {_said(OLDEST)} or newer, below {_said(BELOW)}"
    if found is None:
        return f"{wanted}, and there is none; install it with: {_INSTALL}"
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers and OLDEST <= (int(numbers[1]), int(numbers[2])) < BELOW:
        return ""
    return f"{wanted}, and here is {found or 'one that does not say its version'}; install it with: {_INSTALL}"


def _said(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
