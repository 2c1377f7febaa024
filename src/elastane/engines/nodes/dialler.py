"""The node's side of the line: it dials the hub, and again whenever the line has ended; what runs here goes on.

A node that was away for ``orphan_s`` ends its attempts: nobody may know of them any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Protocol

import msgspec

from elastane.engines.local.agent_messages import TO_AGENT, FromAgent, NotUnderstood, ToAgent
from elastane.engines.local.survive_errors import Trouble
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.line import BrokenLineError, JoinError, NodeLine, WrongHubError, dial
from elastane.engines.nodes.log_parts import LogOffsets, LogPart
from elastane.engines.nodes.messages import (
    TO_NODE,
    Answer,
    AttemptTold,
    Ended,
    Farewell,
    Leaving,
    NodeHello,
    Refused,
    Request,
    Welcome,
)
from elastane.train.coordinator.leases import AwakeClock

ORPHAN_S = 900.0
_SHORTEST_S, _LONGEST_S = 0.2, 2.0
_TAKEN_S = 12.0
"""How long a name may be taken: a process that was killed a moment ago may still count as there."""
_BROKEN_S = 15.0
"""How long lines to a hub may break one after the other before that counts as a failure to join."""
_LOOK_S = 0.25


class RefusedError(JoinError):
    """The hub does not take this node in."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.cause)
        self.why = refused.why


class Workshop(Protocol):
    """What does the work on a node: the agent, and what it needs around it."""

    def hello(self, address: str) -> NodeHello:
        """Who this is, now; ``address`` is this machine's on the way to the hub."""
        ...

    def belongs_to(self, cluster: str) -> None:
        """Remember which cluster this node belongs to."""
        ...

    async def answer(self, message: ToAgent) -> FromAgent:
        """Do what somebody on the head asks for."""
        ...

    def told(self, about: AttemptTold) -> None:
        """Hear what has to be known of an attempt whose fork server will be asked for."""
        ...

    async def resume_logs(self, known: LogOffsets) -> None:
        """Go on sending the logs of an attempt where the head is."""
        ...

    def line_broke(self) -> None:
        """Send no logs until the head has said how far it is."""
        ...

    async def end(self, attempt: str) -> None:
        """End an attempt; returns when nothing of it is left."""
        ...

    async def end_all(self) -> None:
        """End all attempts that there are."""
        ...


class Dialler:
    """Keeps one node's line."""

    def __init__(
        self, join: Join, shop: Workshop, say: Callable[[str], None], orphan_s: float = ORPHAN_S
    ) -> None:
        """``say`` is told what a person should know; ``orphan_s`` of 0 is never."""
        self.session = ""
        """What the hub calls the line that there is; empty while there is none."""
        self._join, self._shop, self._say, self._orphan_s = join, shop, say, orphan_s
        self._line: NodeLine | None = None
        self._clock = AwakeClock()
        self._alone_s = self._clock.now_s()
        self._gone_s: float | None = None
        self._joined = False
        self._works: set[asyncio.Task[None]] = set()
        self._trouble = Trouble("a request of the head was not carried out")

    async def run(self) -> None:
        """Until cancelled.

        Raises:
            JoinError: at first, whatever keeps the node from joining; later, only that another one took its place.
        """
        orphaned = asyncio.create_task(self._look_after_orphans())
        begun_s, wait_s = self._clock.now_s(), _SHORTEST_S
        try:
            while True:
                try:
                    await self._dial()
                    wait_s = _SHORTEST_S
                except RefusedError as error:
                    patient = error.why == "taken" and self._clock.now_s() - begun_s < _TAKEN_S
                    if error.why == "superseded" or not (self._joined or patient):
                        raise
                except JoinError as error:
                    broken = isinstance(error, BrokenLineError) and self._clock.now_s() - begun_s < _BROKEN_S
                    if not self._joined and not broken:
                        raise
                    if isinstance(error, WrongHubError):
                        self._say(f"{error}; it is dialled again")
                if self._joined:
                    begun_s = self._clock.now_s()
                await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))
                wait_s = min(2 * wait_s, _LONGEST_S)
        finally:
            orphaned.cancel()

    async def send_log(self, part: LogPart) -> None:
        """Send a part of a log; waits while the line is full.

        Raises:
            OSError: there is no line, or it broke.
        """
        if self._line is None:
            raise ConnectionResetError("there is no line")
        await self._line.deliver(part)

    def leaving(self, in_s: float) -> None:
        """Say that this machine will be taken away, now and on every line to come."""
        self._gone_s = self._clock.now_s() + in_s
        self._say(f"this machine will be taken away in {in_s:g} s; jobs are asked to leave it")
        if self._line is not None:
            self._tell_leaving(self._line)

    def _tell_leaving(self, line: NodeLine) -> None:
        if self._gone_s is not None:
            line.send(Leaving(max(0.0, self._gone_s - self._clock.now_s())))

    async def leave(self) -> None:
        """Tell the hub that all has ended, if it can be told."""
        if self._line is not None:
            self._line.send(Farewell())
            await self._line.close()

    async def _dial(self) -> None:
        """One line, from its beginning to its end."""
        lines, writer = await dial(self._join)
        line = NodeLine(lines, writer)
        keeping: asyncio.Task[None] | None = None
        try:
            line.send(self._shop.hello(line.own_address))
            welcome = await line.first(TO_NODE)
            if isinstance(welcome, Refused):
                raise RefusedError(welcome)
            if isinstance(welcome, Welcome):
                line.lease_s = welcome.lease_s
                keeping = asyncio.create_task(line.keep())
                self._begin(welcome, line)
                async for message in line.messages(TO_NODE):
                    match message:
                        case Request():
                            self._work(self._serve(line, message))
                        case AttemptTold():
                            self._shop.told(message)
                        case LogOffsets():
                            self._work(self._shop.resume_logs(message))
        except (OSError, ValueError):
            pass  # the line broke, or what came makes no sense: dial again
        finally:
            if keeping is not None:
                keeping.cancel()
            self._lost(line)

    def _begin(self, welcome: Welcome, line: NodeLine) -> None:
        self._shop.belongs_to(welcome.cluster)
        self._line, self.session = line, welcome.session
        again = " again" if self._joined else ""
        self._say(
            f"joined{again}" + (f"; nothing will be placed here: {welcome.unfit}" if welcome.unfit else "")
        )
        self._joined = True
        self._tell_leaving(line)
        for attempt in welcome.end:
            self._work(self._end(line, attempt))

    def _lost(self, line: NodeLine) -> None:
        line.abort()
        if self._line is line:
            self._line, self.session = None, ""
            self._shop.line_broke()
            self._alone_s = self._clock.now_s()
            self._say(
                f"the line is lost{' (the hub is silent)' if line.silent else ''}; jobs go on, dialling again"
            )

    def _work(self, coroutine: object) -> None:
        task = asyncio.ensure_future(coroutine)  # type: ignore[call-overload]
        self._works.add(task)
        task.add_done_callback(self._works.discard)

    async def _serve(self, line: NodeLine, request: Request) -> None:
        answer: FromAgent = NotUnderstood("it could not be carried out")
        with self._trouble.logged():
            try:
                answer = await self._shop.answer(TO_AGENT.read(request.body))
            except ValueError as error:
                answer = NotUnderstood(str(error))
        line.send(Answer(request.number, msgspec.to_builtins(answer, str_keys=True)))

    async def _end(self, line: NodeLine, attempt: str) -> None:
        await self._shop.end(attempt)
        line.send(Ended(attempt))

    async def _look_after_orphans(self) -> None:
        while self._orphan_s > 0:
            await asyncio.sleep(_LOOK_S)
            away_s = self._clock.now_s() - self._alone_s
            if self._line is None and self._joined and away_s > self._orphan_s:
                self._say(f"nobody was there for {self._orphan_s:g} s: all attempts are ended")
                with contextlib.suppress(OSError):
                    await self._shop.end_all()
                self._alone_s = self._clock.now_s()
