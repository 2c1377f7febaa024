"""As whom a job's processes run: a user who is not the service's, and how a process becomes that user for good.

A fork server that is started for a job is that user from its first instruction.  One that was warmed in advance becomes
it before it serves anybody (``become_told``); up to then it has run nothing but our own code.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import asdict, dataclass
from typing import Any

from elastane.train.coordinator.wire import Line, Message

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_UMASK = 0o077
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def environment(self) -> dict[str, str]:
        """What its processes are told of themselves; nothing of the service's own user is left."""
        return {
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": "/bin/sh",
            "TMPDIR": "/tmp",  # noqa: S108 (the service's own may be closed to them)
        }

    def become(self) -> None:
        """Be this user, without a way back: no group of the service, no new privileges, files for itself alone."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs cannot be set")
        os.umask(_UMASK)

    def to_json(self) -> dict[str, Any]:
        """Encode the user as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any] | None) -> Identity | None:
        """The inverse of ``to_json``; None of None."""
        if values is None:
            return None
        return cls(
            str(values["name"]),
            int(values["uid"]),
            int(values["gid"]),
            tuple(int(group) for group in values["groups"]),
            str(values["home"]),
        )


class Become(Message, frozen=True, tag="become"):
    """The one line that a fork server hears which was warmed in advance: for whom it works from now on."""

    environment: dict[str, str]
    log: str
    """Where what it prints goes."""
    identity: Identity | None = None
    """The user to become, if not to stay the agent's own."""


TO_SPARE = Line("the agent", Become)


def become_told(told: Become, environment: MutableMapping[str, str]) -> bool:
    """Take over environment and output, and become the user if one is named; whether one is."""
    environment.update(told.environment)
    output = os.open(told.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    identity = told.identity
    if identity is None:
        return False
    environment.update(identity.environment())
    tempfile.tempdir = None  # whoever asked before was somebody else
    identity.become()
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # it may look at itself again, as before the change
    return True
