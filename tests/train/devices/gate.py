"""One run of the main gate: 1, 2, 4, 3 workers on pretend GPUs with ``kill -9`` all the way, in consistent mode.

Some of the deaths are put between the reduction and the optimizer's step (``dies_before_step``), the others strike
anybody at any moment; two in three of them while a communicator is in use, where the run has one.  ``python -m
train.devices.gate`` prints what became of it as JSON; ``python -m benchmarks.train --only devices`` makes many.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elastane.train.coordinator.supervisor import Supervisor
from elastane.train.reports.events import Diverged, Warned
from elastane.train.transport_choice import TransportKind, TransportWish
from train.devices.pretend import Machine, alone, train
from train.running import SCRIPTS, Outcome

SCRIPT = SCRIPTS / "on_device.py"
SIZES = (2, 4, 3)
PATIENCE_S = 600.0
STUCK_S = 100.0
"""A run that waits so long for anything hangs: it says where, and ends."""
_REBUILT_S = 20.0
"""So long a kill waits for a communicator."""


@dataclass
class Slaughter:
    """Resizes a job and kills its workers, by chance that can be repeated."""

    tokens: Path
    kills: int
    windows: int
    chance: random.Random
    nccl: bool
    struck: list[dict[str, Any]] = field(default_factory=list)

    async def drive(self, supervisor: Supervisor) -> None:
        """All kills, spread over the sizes."""
        while supervisor._server is None or supervisor._server.coordinator.current is None:
            await asyncio.sleep(0.02)
        self._server = supervisor._server
        windows = set(self.chance.sample(range(self.kills), self.windows))
        for number in range(self.kills):
            stage = number * len(SIZES) // self.kills
            if number == 0 or stage != (number - 1) * len(SIZES) // self.kills:
                self._server.perform(self._server.coordinator.resize(SIZES[stage], self._server.now_s))
            await self._strike(number in windows)

    async def _strike(self, in_window: bool) -> None:
        coordinator = self._server.coordinator
        await self._until(lambda: coordinator.settled, what="all workers")
        if self.nccl and self.chance.random() < 2 / 3:
            await self._until(self._connected, what="")
        step = coordinator.step
        await self._until(lambda: coordinator.step > step, what="a step")
        await asyncio.sleep(self.chance.uniform(0.0, 0.1))
        transport = coordinator.current.transport.value if coordinator.current is not None else ""
        before = {worker.name for worker in coordinator.workers.values() if worker.alive}
        members = coordinator.current.members if coordinator.current is not None else ()
        if in_window:
            (self.tokens / "token").touch()
            await self._until(
                lambda: any(not coordinator.workers[name].alive for name in before), what="a death"
            )
        else:
            victim = self.chance.choice(members)
            self._server.signal(victim, signal.SIGKILL)
            await self._until(lambda: not coordinator.workers[victim].alive, what=f"the end of {victim}")
        self.struck.append({"window": in_window, "transport": transport, "members": len(members)})

    def _connected(self) -> bool:
        plan = self._server.coordinator.current
        settled = self._server.coordinator.settled
        return settled and plan is not None and plan.transport is TransportKind.NCCL_LIKE

    async def _until(self, condition: Any, what: str) -> None:
        """Wait; for ``what`` until it is certain that it will not come, for nothing in particular a while."""
        give_up_s = time.monotonic() + (STUCK_S if what else _REBUILT_S)
        while not condition() and time.monotonic() < give_up_s:
            await asyncio.sleep(0.01)
        if what and not condition():
            coordinator = self._server.coordinator
            alive = [str(worker) for worker in coordinator.workers.values() if worker.alive]
            state = (
                f"{coordinator._changes.transition}; current {coordinator.current}; workers: {'; '.join(alive)}"
            )
            for name in coordinator.workers:
                self._server.signal(name, signal.SIGUSR1)
            await asyncio.sleep(2.0)
            raise RuntimeError(f"{what} did not come; {state}")


def one_run(folder: Path, transport: TransportWish, policy: str, seed: int, kills: int, windows: int) -> dict:
    """What became of one run."""
    tokens, result = folder / "tokens", folder / "result"
    tokens.mkdir(parents=True)
    chance = random.Random(f"{transport} {policy} {seed}")
    slaughter = Slaughter(tokens, kills, windows, chance, transport is TransportWish.NCCL)
    delay_us = "300" if policy == "thread" else "0"
    variables = {"DIES_TOKENS": str(tokens), "FAKEGPU_DELAY_US": delay_us}
    began_s = time.monotonic()
    outcome = train(
        SCRIPT,
        folder / "run",
        str(result),
        machine=Machine(4, policy, variables=variables),
        transport=transport,
        preload=("dies_before_step",),
        drive=slaughter.drive,
        patience_s=PATIENCE_S,
    )
    took_s = time.monotonic() - began_s
    digest, epochs, kind = result.read_text().split() if result.exists() else ("", "1", "")
    alone(SCRIPT, folder / "cpu", str(folder / "alone"), "--epochs", epochs, patience_s=PATIENCE_S)
    same = (folder / "alone").read_text().split() == [digest, epochs, "cpu"] and kind == "fakegpu"
    return {
        "same_bits": same,
        "outcome": outcome.ended.outcome,
        "cause": outcome.ended.cause,
        "epochs": int(epochs),
        "steps": outcome.ended.step,
        "took_s": took_s,
        "kills": len(slaughter.struck),
        "windows": len(list(tokens.glob("taken-*"))),
        "over_nccl": sum(each["transport"] == TransportKind.NCCL_LIKE.value for each in slaughter.struck),
        "deaths": len(outcome.lost),
        "recover_s": [change.pause_s for change in outcome.resized if change.kind == "recover"],
        "restarts": _restarts(outcome),
        "diverged": sum(isinstance(event, Diverged) for event in outcome.events),
        "warned": [event.text for event in outcome.events if isinstance(event, Warned)],
    }


def _restarts(outcome: Outcome) -> int:
    """How often the job lost all its workers, and went back to a checkpoint."""
    entries = [json.loads(line) for line in (outcome.run / "plans.jsonl").read_text().splitlines()]
    return sum(entry["type"] == "plan" and entry["plan"]["kind"] == "start" for entry in entries) - 1


def main() -> None:
    """Run once, in a folder that disappears."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--transport", choices=["staged", "nccl"], default="staged")
    parser.add_argument("--policy", choices=["late", "thread"], default="late")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--windows", type=int, default=5)
    options = parser.parse_args()
    wish = TransportWish(options.transport)
    with tempfile.TemporaryDirectory(prefix="elastane-gate-") as folder:
        try:
            found = one_run(Path(folder), wish, options.policy, options.seed, options.kills, options.windows)
        except (Exception, asyncio.CancelledError):
            kept = Path("build/bench") / f"devices-{options.transport}-{options.policy}-{options.seed}"
            shutil.copytree(Path(folder) / "run", kept, dirs_exist_ok=True)
            print(f"what is left of the run is in {kept}", file=sys.stderr)
            raise
    print(json.dumps(found))


if __name__ == "__main__":
    main()
