"""The names of the kinds of jobs, and of their classes.

What a kind *means* for a scheduler (whether a rigid job may be suspended, moved, resized) is the table in
``scheduling/abilities_by_kind.py``, and stands nowhere else.
"""

from __future__ import annotations

from enum import Enum, StrEnum


class Kind(StrEnum):
    """What a job is able to do, from most to least; ``scheduling/abilities_by_kind.py`` says what may be done to it."""

    AUTO = "auto"
    """Found out from the script, and corrected when its process calls into ``elastane.train``."""
    ADAPTIVE = "adaptive"
    """Uses ``elastane.train``: workers and batch change while it trains."""
    RESIZABLE = "resizable"
    """Restarts from its own checkpoint with another number of workers, as torchrun scripts do."""
    RIGID = "rigid"
    """Has one size and checkpoints of its own: what may be done to it is ``scheduling/abilities_by_kind.py``'s."""
    COMMAND = "command"
    """Has one size and saves nothing: once started it runs to its end, or begins anew."""


ONE_SIZE = frozenset({Kind.RIGID, Kind.COMMAND})
"""Kinds whose number of workers is the one they were submitted with."""


class JobClass(Enum):
    """What a job may expect when the cluster is full."""

    GUARANTEED = "guaranteed"
    NORMAL = "normal"
    OPPORTUNISTIC = "opportunistic"
