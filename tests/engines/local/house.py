"""A local engine with real agents, supervisors and workers, and what happens in it as a list of reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from elastane.cluster import Grant, Node
from elastane.engines.contract import Attempt, Ending, Launch, Over, Report, Running, Told, Wanted
from elastane.engines.local.engine import LocalEngine
from elastane.engines.local.json_files import Lock
from elastane.engines.local.marked_processes import marked
from elastane.engines.local.paths import Layout
from elastane.train.reports.events import Event

PATIENCE_S = 180.0
SCRIPTS = Path(__file__).parents[2] / "train" / "scripts"


class House:
    """One engine on one home, and everything it has said."""

    def __init__(self, home: Path, engine: LocalEngine) -> None:
        self.home = home
        self.engine = engine
        self.heard: list[Report] = []

    def launch(self, job: str, number: int, *command: str, kind: str = "auto") -> Launch:
        layout, attempt = Layout(self.home), Attempt(job, number)
        return Launch(attempt, job, command, str(self.home), layout.attempt(attempt), layout.run(job), kind)

    def want(self, launch: Launch, places: Mapping[str, int]) -> None:
        self.engine.ensure(Wanted(launch, Grant.of(places.items())))

    def end(self, launch: Launch, ending: Ending) -> None:
        self.engine.ensure(Wanted(launch, None, ending, "the test says so"))

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, self.heard[-10:]
            await self.engine.changed(0.05)
            self.heard += self.engine.reports()

    def events(self, kind: type[Event], job: str) -> list[Event]:
        told = [r.event for r in self.heard if isinstance(r, Told) and r.attempt.job == job]
        return [event for event in told if isinstance(event, kind)]

    def running(self, launch: Launch) -> list[Running]:
        return [r for r in self.heard if isinstance(r, Running) and r.attempt == launch.attempt]

    def over(self, launch: Launch) -> Over | None:
        return next((r for r in self.heard if isinstance(r, Over) and r.attempt == launch.attempt), None)

    def on(self, launch: Launch) -> dict[str, int]:
        """Members by node, as written down last."""
        counts: dict[str, int] = {}
        for worker in self.engine.processes(launch.attempt):
            if worker.doing == "member":
                counts[worker.node] = counts.get(worker.node, 0) + 1
        return counts


@asynccontextmanager
async def house(
    home: Path, nodes: int = 2, slots: int = 2, devices: Mapping[str, Sequence[str]] | None = None
) -> AsyncIterator[House]:
    """An engine that is ended, with everything in it, when the block ends."""
    engine = LocalEngine(home, {f"n{i}": Node(f"n{i}", slots, "cpu") for i in range(nodes)}, devices)
    await engine.open()
    living = House(home, engine)
    try:
        yield living
    finally:
        await living.engine.close(leave_running=False)
    assert list(marked(home)) == []
    assert not any(Lock(Layout(home).agent_lock(node)).held for node in Layout(home).nodes())


def live(story: Callable[[], object]) -> None:
    """Run a story to its end, or give up."""

    async def main() -> None:
        await asyncio.wait_for(story(), 2 * PATIENCE_S)  # type: ignore[arg-type]

    asyncio.run(main())
