"""Exit codes that scripts can rely on, and the command class through which every live verb ends with one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperCommand

from elastane.cli.live import terminal
from elastane.errors import ElastaneError


class ExitCode(IntEnum):
    """The exit code of a verb, by how it ended."""

    OK = 0
    FAILED = 1
    MISTAKE = 2
    NOT_FOUND = 3
    NOT_ALLOWED = 4
    JOB_FAILED = 10
    JOB_CANCELLED = 11
    INTERRUPTED = 130


MEANING: Mapping[ExitCode, str] = {
    ExitCode.OK: "done (with --wait or --watch: the job succeeded)",
    ExitCode.FAILED: "the machine or the server failed, or not everything could be done",
    ExitCode.MISTAKE: "wrong input; nothing was sent or changed",
    ExitCode.NOT_FOUND: "no such job, node, user or token",
    ExitCode.NOT_ALLOWED: "not logged in, or not allowed",
    ExitCode.JOB_FAILED: "--wait, --watch: the job failed or was refused",
    ExitCode.JOB_CANCELLED: "--wait, --watch: the job was cancelled",
    ExitCode.INTERRUPTED: "interrupted",
}

# \b keeps the help from being filled into one paragraph.
TABLE = "\b\nExit codes:\n" + "\n".join(f"  {code.value:>3}  {meaning}" for code, meaning in MEANING.items())
"""The table as the help shows it."""


_NOT_DONE = frozenset({"conflict", "internal"})
"""Kinds of refusal that are not about what was asked, but about the state of a job or of the server."""


class Verb(TyperCommand):
    """A verb whose mistakes become one clear line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the verb, and turns an error into a message and its exit code."""
        return ending(lambda: super(Verb, self).invoke(ctx))


def ending(run: Callable[[], Any]) -> Any:
    """Run a verb and end it as scripts expect."""
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        result = run()
        sys.stdout.flush()
    except ElastaneError as error:
        terminal.say(f"error: {error}")
        raise typer.Exit(code_of(error)) from None
    except BrokenPipeError:
        # Whoever read our output has had enough of it, as `elastane logs j1 | head` does.
        _forget_output()
        raise typer.Exit(ExitCode.OK) from None
    return result


def code_of(error: ElastaneError) -> ExitCode:
    """The exit code that a refusal stands for."""
    from elastane.client import Busy, Forbidden, NotFoundError, NotRunning, RequestRefused, Unauthorized

    match error:
        case NotFoundError():
            return ExitCode.NOT_FOUND
        case Unauthorized() | Forbidden():
            return ExitCode.NOT_ALLOWED
        case NotRunning() | Busy():
            return ExitCode.FAILED
        case RequestRefused() if error.problem.kind in _NOT_DONE:
            return ExitCode.FAILED
    return ExitCode.MISTAKE


def _forget_output() -> None:
    """Let nothing more reach standard output: Python would complain at exit about what it could not write."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
