"""The process ends in order: signals ask training to stop, and without a supervisor it notes the end itself."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from elastane.train.errors import TrainError
from elastane.train.script.refusals import advice


class Ending(Protocol):
    """What of a job concerns the end of its process."""

    @property
    def elastic(self) -> bool:
        """Whether a supervisor watches this process."""
        ...

    @property
    def entered(self) -> bool:
        """Whether training has begun."""
        ...

    def ask_to_stop(self, why: str) -> None:
        """End training at the next step boundary."""
        ...

    def finish(self) -> None:
        """The script has come to its end."""
        ...

    def stopped(self) -> None:
        """The script has ended because it was asked to."""
        ...

    def failed(self, cause: str) -> None:
        """The script has ended with an error."""
        ...


@dataclass(slots=True)
class ProcessHooks:
    """The signal handlers, exception hook and exit function of one job's process."""

    job: Ending
    stop_asked: bool = False

    def install(self) -> None:
        """Take up the work; signals are the main thread's only."""
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, self._stop)
            if not self.job.elastic:
                signal.signal(signal.SIGINT, self._stop)
        if not self.job.elastic:
            sys.excepthook = self._noting(sys.excepthook)
            atexit.register(self._ended)

    def _stop(self, number: int, _frame: Any) -> None:
        """A first SIGTERM (or Ctrl-C, alone) ends training at a step boundary, with a checkpoint; a second at once."""
        if self.stop_asked or not self.job.entered:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.stop_asked = True
        self.job.ask_to_stop(signal.Signals(number).name)

    def _noting(self, hook: Callable[..., Any]) -> Callable[..., None]:
        """An exception hook that notes the failure before ``hook`` prints it."""

        def note(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            self.job.failed(f"{kind.__name__}: {error}")
            if isinstance(error, TrainError):
                print(f"elastane: error: {error}", file=sys.stderr)  # noqa: T201
                return
            hook(kind, error, trace)
            if advice(error):
                print(f"elastane: {advice(error)}", file=sys.stderr)  # noqa: T201

        return note

    def _ended(self) -> None:
        if self.stop_asked:
            self.job.stopped()
        else:
            self.job.finish()
