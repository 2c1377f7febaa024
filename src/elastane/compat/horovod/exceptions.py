"""The two ways in which a round of training ends early; ``elastic.run`` begins the next one."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective could not finish: a worker was lost, and what it held since the last commit is void."""


class HostsUpdatedInterrupt(RuntimeError):
    """Workers come or go; raised at the same commit on all of them, so nothing is lost."""
