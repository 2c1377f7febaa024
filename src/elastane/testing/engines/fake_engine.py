"""An engine without processes: fake work on nodes in memory, in the time of a given clock.

For tests of the control plane and for measuring it under load.  It keeps its own truth: control planes may come and
go, and it counts how often each attempt was started.  What a real cluster could not do it refuses to do, with an
``AssertionError``: more workers on a node than slots, an attempt after its end, two attempts of a job at once.

A move takes both places, the old and the new, until it is complete; training stands still meanwhile.  Nothing is
looked at between two things that happen, so that hundreds of jobs cost only what they do.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from elastane.cluster import Node
from elastane.engines.contract import (
    Attempt,
    Cause,
    Ending,
    Examined,
    NodeFacts,
    Over,
    Pool,
    Report,
    Running,
    Told,
    Wanted,
    WorkerFacts,
)
from elastane.jobs.parts import Interpreter
from elastane.testing.engines.fake_nodes import FakeNodes, FakePool
from elastane.testing.engines.fake_work import Delays, FakeWork, Phase, Places, Run, change, union
from elastane.train.reports.events import Event

_Act = Callable[[Run, float], None]


class FakeEngine:
    """Implements ``contract.Engine`` in memory, on a clock of its own."""

    def __init__(
        self,
        nodes: Iterable[Node],
        clock: Callable[[], float] = time.time,
        delays: Delays | None = None,
        *,
        pools: Mapping[str, FakePool] | None = None,
        speeds: Mapping[str, float] | None = None,
    ) -> None:
        """``speeds`` are those of accelerator types, relative to what a job says of its work."""
        self._nodes = FakeNodes(nodes, pools)
        self._speeds = dict(speeds or {})
        self._clock, self._delays = clock, delays or Delays()
        self._used: Counter[str] = Counter()
        self._runs: dict[Attempt, Run] = {}
        self._latest: dict[str, Run] = {}
        self._saved: dict[str, float] = {}
        self._due: list[tuple[float, int, int, Run, _Act]] = []
        self._order = itertools.count()
        self._news: list[Report] = []
        self._fresh = False
        self._poke = asyncio.Event()
        self.starts: Counter[Attempt] = Counter()
        """How often each attempt was started; more than once is wrong."""

    # What goes wrong, and what is true.

    def lose_node(self, name: str) -> None:
        """A node no longer answers, and what ran on it is gone."""
        now_s = self._pump()
        if self._nodes.lose(name):
            self._hurt(name, now_s)

    def bring_back(self, name: str) -> None:
        """A node answers again, with nothing on it."""
        now_s = self._pump()
        if self._nodes.come_back(name):
            for run in self._runs.values():
                if name in run.wish and run.phase not in (Phase.LEAVING, Phase.OVER):
                    self._head_for_wish(run, now_s)
            self._stir()

    def restart_node(self, name: str) -> None:
        """A node goes and comes back before anybody looks."""
        self.lose_node(name)
        self.bring_back(name)

    def add_node(self, node: Node, **facts: Any) -> None:
        """A node joins that nobody knew of."""
        self._nodes.add(node, **facts)
        self._stir()

    def remove_node(self, name: str) -> None:
        """A node is gone for good, and what ran on it too."""
        now_s = self._pump()
        self._nodes.remove(name)
        self._hurt(name, now_s)

    def say(self, name: str, **facts: Any) -> None:
        """Something about a node (``NodeFacts``) is another thing from now on."""
        self._nodes.say(name, **facts)
        self._stir()

    def _hurt(self, name: str, now_s: float) -> None:
        for run in [r for r in self._runs.values() if name in r.taken]:
            self._lose_part(run, name, now_s)
        self._stir()

    def fail(self, job: str, cause: Cause = Cause.FAILED, code: int | None = 1) -> bool:
        """A job's processes end by themselves; False when it has none."""
        now_s = self._pump()
        run = self._latest.get(job)
        if run is None or run.phase is Phase.OVER:
            return False
        run.advance(now_s)
        self._end(run, cause, cause.value if code is None else f"exit code {code}", code, now_s)
        return True

    def workers_of(self, job: str) -> Places:
        """Who really trains for a job now."""
        self._pump()
        run = self._latest.get(job)
        return dict(run.held) if run is not None and run.phase is not Phase.OVER else {}

    def done(self, job: str) -> float:
        """Samples that a job has really worked through."""
        now_s = self._pump()
        run = self._latest[job]
        run.advance(now_s)
        return run.done

    # What every engine does.

    async def examine(
        self,
        kind: str,
        command: Sequence[str],  # noqa: ARG002
        directory: str,  # noqa: ARG002
        environment: Mapping[str, str],  # noqa: ARG002
        python: Interpreter | None = None,  # noqa: ARG002
        *,
        owner: str = "",  # noqa: ARG002
    ) -> Examined:
        """Whatever it is told; else adaptive."""
        if kind == "auto":
            return Examined("adaptive", "fake work takes any number of workers")
        return Examined(kind, "its owner says so")

    async def open(self) -> None:
        """Somebody else asks from now on, who has heard nothing yet."""
        self._pump()
        self._news.clear()
        for run in self._runs.values():
            run.asked = False

    async def close(self, *, leave_running: bool) -> None:
        """Go on without a control plane, or end everything."""
        now_s = self._pump()
        for run in [] if leave_running else self._runs.values():
            if run.phase is not Phase.OVER:
                run.advance(now_s)
                self._end(run, Cause.SUSPENDED, "Elastane was shut down", None, now_s)

    def nodes(self) -> Mapping[str, Node]:
        """Those that were not lost."""
        due_s = self._nodes.next_s()
        if due_s is not None and due_s <= self._clock():
            self._pump()
        return self._nodes.there

    def known_nodes(self) -> Mapping[str, Node]:
        """All nodes, those that are down included."""
        return self._nodes.known

    def node_facts(self) -> Mapping[str, NodeFacts]:
        """What a test has said of them."""
        return self._nodes.facts

    def pools(self) -> Mapping[str, Pool]:
        """Those that it was made with."""
        return self._nodes.pools()

    def want(self, pool: str, count: int, keep: Collection[str]) -> None:
        """More nodes come after a while, those that are given back are gone at once."""
        self._nodes.want(pool, count, keep, self._pump(), lambda node: self._used[node] > 0)
        self._stir()

    def ensure(self, wanted: Wanted) -> None:
        """Start, move or end it; nothing, if it is so already."""
        attempt = wanted.launch.attempt
        run = self._runs.get(attempt)
        if run is not None and run.asked and run.grant is wanted.grant and run.phase is Phase.RUNNING:
            return
        now_s = self._pump()
        if run is None:
            run = self._begin(wanted, now_s)
        elif not run.asked:
            run.asked = True
            self._news.extend(report for report in run.kept if report.number > wanted.seen)
            self._stir()
        if run.phase is Phase.OVER:
            return
        if wanted.grant is None:
            self._leave(run, wanted.ending, wanted.why, now_s)
        elif run.phase is not Phase.LEAVING:
            places = {part.node: part.workers for part in wanted.grant.slices if part.workers}
            run.grant = wanted.grant
            if places != run.wish:
                run.wish = places
                self._head_for_wish(run, now_s)

    def reports(self) -> list[Report]:
        """What has happened until now."""
        self._pump()
        news, self._news = self._news, []
        return news

    async def changed(self, timeout_s: float) -> bool:
        """Until something is due, or somebody did something."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while not self._fresh:
            left_s = end_s - loop.time()
            if left_s <= 0.0:
                return False
            for due_s in (self._due[0][0] if self._due else None, self._nodes.next_s()):
                if due_s is not None:
                    left_s = min(left_s, max(0.0, due_s - self._clock()))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._poke.wait(), left_s)
            self._poke.clear()
            self._pump()
        self._fresh = False
        return True

    def forget(self, attempt: Attempt) -> None:
        """Its end is stored."""
        run = self._runs.get(attempt)
        if run is not None and run.phase is Phase.OVER:
            del self._runs[attempt]

    def processes(self, attempt: Attempt) -> list[WorkerFacts]:
        """Who is there, leaving or not."""
        self._pump()
        run = self._runs.get(attempt)
        held = run.taken if run is not None else {}
        names = itertools.count()
        phase = run.phase.name.lower() if run is not None else ""
        return [WorkerFacts(f"w{next(names)}", node, None, phase) for node, n in held.items() for _ in range(n)]

    def facts(self) -> Mapping[str, Any]:
        """Which engine, and how much it has to do."""
        return {"engine": "fake", "attempts": len(self._runs), "used": dict(self._used)}

    # The life of a run.

    def _begin(self, wanted: Wanted, now_s: float) -> Run:
        attempt = wanted.launch.attempt
        before = self._latest.get(attempt.job)
        _assert(
            before is None or before.launch.attempt < attempt, f"{attempt} was over, and is asked for again"
        )
        _assert(
            before is None or before.phase is Phase.OVER, f"{attempt} begins before the one before it ended"
        )
        done = 0.0 if wanted.launch.kind == "command" else self._saved.get(attempt.job, 0.0)
        work = FakeWork.of(wanted.launch.environment)
        run = Run(wanted.launch, work, wanted.seen, done, now_s, safe=done, step=int(done / work.batch))
        self._runs[attempt] = self._latest[attempt.job] = run
        if wanted.grant is not None:
            self.starts[attempt] += 1
        return run

    def _head_for_wish(self, run: Run, now_s: float) -> None:
        """On the way to what is wanted, as far as its nodes are there."""
        target = {node: count for node, count in run.wish.items() if node in self._nodes.there}
        if (run.one_size and target != run.wish) or not (target or run.held):
            gone = ", ".join(sorted(run.wish.keys() - self._nodes.there.keys()))
            self._end(run, Cause.LOST, f"node lost: {gone}", None, now_s)
            return
        target = target or dict(run.held)
        if run.phase is Phase.RUNNING and target == run.held:
            return
        run.advance(now_s)
        run.turn += 1
        starting = run.phase is Phase.STARTING
        run.phase = run.phase if starting else Phase.MOVING
        self._occupy(run, union(run.taken, target))
        wait_s = self._delays.start_s if starting else self._delays.resize_s
        self._later(run, now_s + wait_s, lambda run, at_s: self._settle(run, target, at_s))

    def _settle(self, run: Run, target: Places, at_s: float) -> None:
        """All workers are where they should be, and nobody else is left."""
        pause_s = self._delays.start_s if run.phase is Phase.STARTING else self._delays.resize_s
        run.speed = min(
            (self._speeds.get(self._nodes.known[node].gpu_type, 1.0) for node in target), default=1.0
        )
        self._tell(run, run.settle(target, pause_s, bool(run.wish.keys() - self._nodes.there.keys()), at_s))
        self._occupy(run, target)
        launch = run.launch
        self._say(run, Running(launch.attempt, run.number + 1, dict(target), launch.kind, "", at_s))
        self._later(run, at_s + self._delays.window_s, self._window)
        self._later(run, at_s + max(0.0, run.work.samples - run.done) / run.rate(), self._finish)

    def _window(self, run: Run, at_s: float) -> None:
        self._tell(run, run.window(at_s))
        self._later(run, at_s + self._delays.window_s, self._window)

    def _finish(self, run: Run, at_s: float) -> None:
        run.done, run.as_of_s = run.work.samples, at_s
        self._end(run, Cause.FINISHED, "", 0, at_s)

    def _leave(self, run: Run, ending: Ending, why: str, now_s: float) -> None:
        """As it is asked to; one that never began has nothing to leave."""
        if run.phase is Phase.LEAVING:
            return
        run.advance(now_s)
        run.phase, run.grant, run.turn = Phase.LEAVING, None, run.turn + 1
        cause = Cause.SUSPENDED if ending is Ending.SUSPEND else Cause.CANCELLED
        wait_s = self._delays.leave_s if run.taken else 0.0
        self._later(run, now_s + wait_s, lambda run, at_s: self._end(run, cause, why, None, at_s))

    def _lose_part(self, run: Run, node: str, now_s: float) -> None:
        run.advance(now_s)
        self._occupy(run, {n: count for n, count in run.taken.items() if n != node})
        run.held = {n: count for n, count in run.held.items() if n != node}
        if run.phase is Phase.LEAVING and run.taken:
            return
        if run.one_size or not run.held:
            self._end(run, Cause.LOST, f"node lost: {node}", None, now_s)
            return
        run.phase = Phase.MOVING
        self._head_for_wish(run, now_s)

    def _end(self, run: Run, cause: Cause, detail: str, code: int | None, at_s: float) -> None:
        self._saved[run.launch.attempt.job] = run.done if cause is Cause.SUSPENDED else run.safe
        run.phase, run.held, run.turn = Phase.OVER, {}, run.turn + 1
        self._occupy(run, {})
        self._say(run, Over(run.launch.attempt, run.number + 1, cause, detail, code, at_s))

    # Room, time and words.

    def _occupy(self, run: Run, places: Places) -> None:
        for node, count in change(run.taken, places).items():
            self._used[node] += round(count * run.work.slots)
            slots = self._nodes.known[node].gpus if node in self._nodes.known else self._used[node]
            _assert(self._used[node] <= slots, f"{self._used[node]} of {slots} slots of {node} are taken")
        run.taken = dict(places)

    def _later(self, run: Run, at_s: float, act: _Act) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), run.turn, run, act))
        self._poke.set()

    def _pump(self) -> float:
        """Let everything happen that is due; returns the time."""
        now_s = self._clock()
        while self._due and self._due[0][0] <= now_s:
            at_s, _, turn, run, act = heapq.heappop(self._due)
            if turn == run.turn and run.phase is not Phase.OVER:
                act(run, at_s)
        if self._nodes.arrive(now_s):
            self._stir()
        return now_s

    def _stir(self) -> None:
        self._fresh = True
        self._poke.set()

    def _tell(self, run: Run, event: Event) -> None:
        self._say(run, Told(run.launch.attempt, run.number + 1, event))

    def _say(self, run: Run, report: Report) -> None:
        run.number = report.number
        run.kept.append(report)
        if run.asked:
            self._news.append(report)
            self._stir()


def _assert(true: bool, otherwise: str) -> None:
    if not true:
        raise AssertionError(otherwise)
