"""``init`` and ``shutdown``, and the questions in between: one session per process, kept here."""

from __future__ import annotations

import atexit
import os
import sys
from typing import Any, NoReturn

import torch

from elastane.compat.horovod.session import Session
from elastane.train.errors import TrainError
from elastane.train.script.environment import membership_here

_session: Session | None = None
_parted = False


def init(comm: Any = None) -> None:
    """Begin; a second call changes nothing.  ``comm`` is there for the signature, and must be None."""
    global _session
    if comm is not None:
        raise TrainError("hvd.init(comm): communicators and process sets are not supported")
    if _session is not None:
        return
    if _parted:
        raise TrainError(
            "hvd.init(): this process has left the others with hvd.shutdown(), and cannot come back"
        )
    if (threads := os.environ.get("ELASTANE_THREADS")) is not None:
        torch.set_num_threads(int(threads))
    _session = Session(membership_here())
    atexit.register(_at_exit, _session)


def _at_exit(session: Session) -> None:
    if getattr(sys, "last_value", None) is None:
        session.end()


def session() -> Session:
    """The session that ``init`` began."""
    return _session if _session is not None else _missing()


def _missing() -> NoReturn:
    raise TrainError("call hvd.init() first")


def shutdown() -> None:
    """End, when the others have come to their end, too."""
    global _parted, _session
    ended, _session = _session, None
    if ended is None or not ended.joined:
        return
    _parted = ended.membership.elastic or ended.membership.world > 1
    ended.end()


def is_initialized() -> bool:
    """Whether ``init`` was called, and ``shutdown`` was not."""
    return _session is not None


def rank() -> int:
    """This worker's number, from 0; it may change when members do."""
    return session().join().rank


def size() -> int:
    """How many workers there are."""
    return session().join().world


def local_rank() -> int:
    """This worker's number among those on its machine."""
    session().join()
    return session().local[0]


def local_size() -> int:
    """How many workers there are on this machine."""
    session().join()
    return session().local[1]
