"""Adds a remedy to the failure of a job whose interpreter lacks a package: one line, with that interpreter's path."""

from __future__ import annotations

import re
import sys

from elastane.engines.local.command import Runnable

_ABSENT = re.compile(r"(?:\A|; its last words: )ModuleNotFoundError: No module named '(\w+)")
"""Python's own words at the beginning of what a script died of; lines of ours begin otherwise."""
_PACKAGES = {"torch": "torch", "elastane": "'elastane[torch]'"}


def with_remedy(cause: str, what: Runnable) -> str:
    """The cause of a failure, and what to do about it where that is known.

    >>> with_remedy("ModuleNotFoundError: No module named 'torch'", Runnable("t.py", python="/v/bin/python"))
    "ModuleNotFoundError: No module named 'torch'; install it with: /v/bin/python -m pip install torch"
    """
    found = _ABSENT.search(cause)
    if found is None or what.program:
        return cause
    python = what.python or sys.executable
    package = _PACKAGES.get(found[1])
    return f"{cause}; " + (
        f"install it with: {python} -m pip install {package}" if package else f"it ran with {python}"
    )
