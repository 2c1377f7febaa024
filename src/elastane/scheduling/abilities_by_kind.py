"""Defines what *adaptive*, *resizable*, *rigid* and *command* mean: which abilities a job of each kind has.

A scheduler may do with a job what its abilities say, and this table is the only place where they are set.

| kind | suspend | move | resize | other batch |
|---|---|---|---|---|
| adaptive | yes | yes | yes | yes |
| resizable | yes, restarts from its own checkpoint | yes | yes | no |
| rigid | yes, restarts from its own checkpoint | yes | no | no |
| command | no: it would lose all its work | no | no | no |

Published systems that preempt (Tiresias, Gavel) assume *rigid* jobs in this sense: of one size, with checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from elastane.jobs.kinds import Kind
from elastane.policies.view import Ability

ABILITIES: Mapping[Kind, Ability] = MappingProxyType(
    {
        Kind.ADAPTIVE: Ability.SUSPEND | Ability.MIGRATE | Ability.RESIZE | Ability.REBATCH,
        Kind.RESIZABLE: Ability.SUSPEND | Ability.MIGRATE | Ability.RESIZE,
        Kind.RIGID: Ability.SUSPEND | Ability.MIGRATE,
        Kind.COMMAND: Ability.NONE,
    }
)
"""What may be done to a job of each kind."""
