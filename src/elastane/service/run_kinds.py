"""Translates between the kind of a job, as people and policies know it, and the way in which an engine runs it.

| kind of the job | run as (``JobRow.kind``, ``Launch.kind``, ``Examined.kind``) |
|---|---|
| adaptive | adaptive |
| resizable | resizable: stopped and started again, goes on from its own checkpoint |
| rigid | resizable too, but its spec allows one size only |
| command | command: started once, never touched |

No engine finds out that a job is *rigid* (``kind: auto``): that a script of one size has checkpoints of its own only
its owner can say.  Earlier versions stored commands as ``rigid``; such rows are still commands.
"""

from __future__ import annotations

from elastane.jobs.kinds import Kind
from elastane.service.store.rows import JobRow

COMMAND_RUN = "command"
"""How engines call what is started once and never suspended, moved or resized."""
_COMMAND_RUNS = frozenset({COMMAND_RUN, "rigid"})
_RESTARTED = "resizable"


def run_kind(kind: Kind) -> str:
    """How an engine runs a job of this kind; ``auto`` leaves it to the engine."""
    return {Kind.COMMAND: COMMAND_RUN, Kind.RIGID: _RESTARTED}.get(kind, kind.value)


def kind_of(row: JobRow) -> Kind:
    """The kind of a stored job, from how it is run and what its spec says."""
    if row.kind in _COMMAND_RUNS:
        return Kind.COMMAND
    if row.kind == _RESTARTED and row.spec.get("kind") == Kind.RIGID.value:
        return Kind.RIGID
    return Kind(row.kind)


def is_command(row: JobRow) -> bool:
    """Whether the job saves nothing: it must not be stopped, and begins anew if it is lost."""
    return row.kind in _COMMAND_RUNS
