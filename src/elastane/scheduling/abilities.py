"""The table from a job's kind to what a scheduler may do with it: the only place where that is decided.

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
from elastane.policies.view import ELASTIC, RIGID, Ability

ABILITIES: Mapping[Kind, Ability] = MappingProxyType(
    {
        Kind.ADAPTIVE: ELASTIC,
        Kind.RESIZABLE: ELASTIC & ~Ability.REBATCH,
        Kind.RIGID: RIGID,
        Kind.COMMAND: Ability.NONE,
    }
)
"""What may be done to a job of each kind."""
