"""Translates between the kind of a job, as people and policies know it, and the way in which an engine runs it.

| kind of the job | run as (``JobRow.kind``, ``Launch.kind``, ``Examined.kind``) |
|---|---|
| adaptive | adaptive |
| resizable | resizable: stopped and started again, goes on from its own checkpoint |
| rigid | resizable too, but its spec allows one size only |
| command | rigid, which is the engines' word for: started once, never touched |

What an engine finds out about a command (``kind: auto``) is never *rigid*: that a script of one size has checkpoints of
its own only its owner can say.  Jobs that were stored as rigid by earlier versions were commands, and still are.
"""

from __future__ import annotations

from elastane.jobs.kinds import Kind
from elastane.service.store.rows import JobRow

COMMAND_RUN = "rigid"
"""How engines call what is started once and never suspended, moved or resized."""
_RESTARTED = "resizable"


def run_kind(kind: Kind) -> str:
    """How an engine runs a job of this kind; ``auto`` leaves it to the engine."""
    return {Kind.COMMAND: COMMAND_RUN, Kind.RIGID: _RESTARTED}.get(kind, kind.value)


def kind_of(row: JobRow) -> Kind:
    """The kind of a stored job, from how it is run and what its spec says."""
    if row.kind == COMMAND_RUN:
        return Kind.COMMAND
    if row.kind == _RESTARTED and row.spec.get("kind") == Kind.RIGID.value:
        return Kind.RIGID
    return Kind(row.kind)


def is_command(row: JobRow) -> bool:
    """Whether the job saves nothing: it must not be stopped, and begins anew if it is lost."""
    return row.kind == COMMAND_RUN
