"""Defines the jobs of the demo: what each trains, how elastic it is, and when it arrives."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parent / "scripts"
_CHECKPOINT_S = 5.0
_ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
"""The environment that torchrun gives the only worker of a job; port 0 takes a free one."""


@dataclass(frozen=True, slots=True)
class Role:
    """One job; ``arrives_s`` counts from the first step of training of the first."""

    name: str
    script: str
    arguments: tuple[str, ...]
    character: str
    arrives_s: float
    least: int = 1
    most: int = 1
    kind: str = "auto"
    alone: Mapping[str, str] = field(default_factory=dict)
    """Environment of the same script run by itself."""

    @property
    def command(self) -> list[str]:
        """The command line of the script, the same with Elastane and without."""
        return [sys.executable, str(SCRIPTS / f"{self.script}.py"), *self.arguments]

    def spec(self) -> dict[str, Any]:
        """Returns the job spec, as a user would write it in a YAML file."""
        spec = {
            "name": self.name,
            "command": self.command,
            "kind": self.kind,
            "workers": {"min": self.least, "max": self.most},
        }
        return spec if self.kind == "command" else {**spec, "checkpoint": {"every": _CHECKPOINT_S}}


CAST = (
    Role("cnn", "cnn", ("--epochs=140", "--mode=adaptive"), "batch and learning rate adapt", 0.0, most=4),
    Role("grammar", "grammar", ("--epochs=18",), "transformer on generated text", 10.0, most=4),
    Role("rows", "rows", ("--epochs=50",), "any command, of one size", 16.0, kind="command"),
    Role("mlp", "mlp", ("--epochs=160",), "many small steps", 22.0, most=4),
    Role(
        "torchrun", "torchrun", ("--epochs=120",), "unmodified script, own checkpoint", 26.0, 1, 2, alone=_ALONE
    ),
)
