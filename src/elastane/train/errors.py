"""The errors of a worker say what can go wrong in it, and who it concerns."""

from __future__ import annotations

from elastane.errors import ElastaneError


class TrainError(ElastaneError):
    """A mistake in the script or its settings; shown in the log and as the worker's exit cause."""


class PlaceAway(TrainError):
    """The place of the checkpoints does not answer now: what was saved is still there, and it may answer later."""


class MembershipChanged(Exception):
    """A collective could not finish because a member died or left; handled inside the library."""


class Released(SystemExit):
    """This worker has been asked to leave and did so at a step boundary: a clean exit."""

    def __init__(self, reason: str = "released") -> None:
        super().__init__(0)
        self.reason = reason


class Diverged(TrainError):
    """Replicas that should be equal are not."""
