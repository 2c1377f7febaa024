"""Adds a remedy to the failure of a job whose interpreter lacks a package: one line, with that interpreter's path."""

from __future__ import annotations

import re
import sys

from elastane.engines.local.command import Runnable
from elastane.train.exit_cause import ExitCause

_ABSENT = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
"""Python's own words at the beginning of what a script died of."""
_PACKAGES = {"torch": "torch", "elastane": "'elastane[torch]'"}


def with_remedy(end: ExitCause, what: Runnable) -> ExitCause:
    """The cause of a failure, and what to do about it where that is known.

    >>> end = ExitCause.of_process(1).said("ModuleNotFoundError: No module named 'torch'")
    >>> str(with_remedy(end, Runnable("t.py", python="/v/bin/python")))
    'exit code 1; install it with: /v/bin/python -m pip install torch'
    """
    found = _ABSENT.match(end.words)
    if found is None or what.program:
        return end
    python = what.python or sys.executable
    package = _PACKAGES.get(found[1])
    remedy = f"install it with: {python} -m pip install {package}" if package else f"it ran with {python}"
    return end.told(f"{end}; {remedy}")
