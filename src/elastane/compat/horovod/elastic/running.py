"""``elastic.run``: train in rounds; each ends with the training, with other members, or with a lost worker."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from elastane.compat.horovod.elastic.state import State
from elastane.compat.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from elastane.compat.horovod.operations import barrier
from elastane.compat.horovod.process import session
from elastane.train.errors import TrainError


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Make ``func(state, ...)`` elastic.

    A lost worker takes the state back to the last commit; workers that come or go do not.  Then the members
    form a new group, reset callbacks are called, everybody takes over the newest state, and ``func`` is called
    again.  Nobody returns before everybody has come to the end.
    """

    @functools.wraps(func)
    def elastic(state: State, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(state, State):
            raise TrainError(f"elastic.run: the first argument must be a State, not {type(state).__name__}")
        session().join()
        session().catch_signals()
        while True:
            problem: str | None = None
            try:
                began = time.perf_counter()
                session().settle()
                state.sync()
                session().resumed(time.perf_counter() - began)
                result = func(state, *args, **kwargs)
                barrier()
                return result
            except HorovodInternalError as error:
                problem = str(error)
            except HostsUpdatedInterrupt:
                pass
            if problem is None:
                session().switch()
            else:
                state.restore()
                session().recover(problem)
            state.on_reset()

    return elastic
