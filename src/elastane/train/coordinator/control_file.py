"""A running job's control file: where its supervisor listens, and with which tokens.

The supervisor that follows on one that was killed listens at the same port with the same tokens, so that workers and
fork servers find it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elastane.kit.atomic_files import write_atomically
from elastane.train.coordinator.login_reader import Tokens
from elastane.train.errors import TrainError

CONTROL_FILE = "control.json"


@dataclass(frozen=True, slots=True)
class Control:
    """Where a supervisor listens."""

    host: str
    port: int
    tokens: Tokens

    @classmethod
    def from_json(cls, values: Any) -> Control:
        """The inverse of ``to_json``.

        Raises:
            ValueError: nobody of ours wrote this.
        """
        try:
            clients = str(values["token"])
            # Workers of an earlier version had the token of clients; they keep it.
            tokens = Tokens(str(values.get("workers_token", clients)), clients)
            return cls(str(values["host"]), int(values["port"]), tokens)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError("it does not say where its supervisor listens") from error

    def to_json(self, pid: int) -> dict[str, Any]:
        """JSON values, with the supervisor's process."""
        address = {"host": self.host, "port": self.port, "pid": pid}
        return {**address, "token": self.tokens.clients, "workers_token": self.tokens.workers}


class ControlFile:
    """The file of one job."""

    def __init__(self, records: Path) -> None:
        self._path = records / CONTROL_FILE

    def write(self, control: Control) -> None:
        """Say where this process listens; readable to its owner only.

        A process that is killed while it writes leaves the file of the one before it: it is replaced as a whole.
        """
        write_atomically(self._path, json.dumps(control.to_json(os.getpid())), private=True)

    def read(self) -> Control:
        """Where the supervisor listens that ran the job last.

        Raises:
            OSError: there is no such file.
            ValueError: it is not one of ours.
        """
        return Control.from_json(json.loads(self._path.read_text()))

    def remove(self) -> None:
        """Nobody listens any more."""
        self._path.unlink(missing_ok=True)


def control_of(run: Path) -> Mapping[str, Any]:
    """Where a running job can be reached, as JSON values.

    Raises:
        TrainError: no job runs there.
    """
    try:
        facts: Mapping[str, Any] = json.loads((run / CONTROL_FILE).read_text())
    except (OSError, ValueError) as error:
        raise TrainError(f"no job is running in {run}") from error
    return facts
