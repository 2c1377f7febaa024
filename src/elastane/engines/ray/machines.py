"""Gets machines from a Ray cluster for the engine: it keeps a warden running and tells it what is wanted.

The loss of Ray is no loss of jobs: nodes that have joined go on, new ones cannot come, and ``problem`` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from elastane.engines.contract import Pool
from elastane.engines.ray.messages import FROM_WARDEN, WardenProblem, WardenState, Wish
from elastane.engines.ray.pools import PoolSpec
from elastane.engines.ray.warden import Address
from elastane.errors import ElastaneError
from elastane.train.coordinator.wire import encode_message

log = logging.getLogger("elastane")

OLDEST = (2, 52)
"""The first version of Ray that has token authentication."""
_FIRST_S, _LONGEST_S = 1.0, 30.0
_ENOUGH_S = 60.0
"""A warden that lived so long has done well: the next one is started at once."""
_CLOSE_S, _GIVE_BACK_S, _LOOK_S = 5.0, 8.0, 0.1
_LINE_BYTES = 16 << 20


class RayMachines:
    """The machines of one Ray cluster."""

    def __init__(
        self,
        home: Path,
        address: Address,
        pools: Sequence[PoolSpec],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``environment`` is that of the warden, with what opens Ray's cluster; by default our own."""
        self._environment = dict(os.environ if environment is None else environment)
        self.problem = "Ray has not answered yet"
        self.state = WardenState()
        self._home, self._address = home, address
        self._changed: Callable[[], None] = lambda: None
        self._pools = {spec.name: spec for spec in pools}
        self._counts = {spec.name: spec.least for spec in pools}
        self._keep: tuple[str, ...] = ()
        self._join = ""
        self._process: asyncio.subprocess.Process | None = None
        self._lasting = False

    def pools(self) -> Mapping[str, Pool]:
        """Kinds of machines there can be more or fewer of, by name."""
        held: dict[str, int] = {}
        for node in self.state.nodes:
            held[node.pool] = held.get(node.pool, 0) + bool(node.pool)
        return {name: spec.pool(held.get(name, 0)) for name, spec in self._pools.items()}

    def want(self, pool: str, count: int, keep: Collection[str]) -> None:
        """Have so many machines of a pool from now on, ``keep`` among them."""
        spec = self._pools.get(pool)
        if spec is None:
            return
        wanted = min(max(count, spec.least), spec.most)
        if (wanted, tuple(sorted(keep))) != (self._counts[pool], self._keep):
            self._counts[pool], self._keep = wanted, tuple(sorted(keep))
            self._wish()

    async def run(self, join: str, changed: Callable[[], None]) -> None:
        """Keep a warden running until cancelled, or until trying again cannot help.

        ``join`` is the string with which pilots let their node join; ``changed`` is called when machines come or go.
        """
        self._join, self._changed = join, changed
        rest_s = _FIRST_S
        loop = asyncio.get_running_loop()
        while not self._lasting:
            began_s = loop.time()
            await self._serve()
            rest_s = _FIRST_S if loop.time() - began_s > _ENOUGH_S else min(2 * rest_s, _LONGEST_S)
            if not self._lasting:
                await asyncio.sleep(rest_s)

    async def _serve(self) -> None:
        """Have one warden, to its end."""
        with (self._home / "warden.log").open("ab") as output:
            process = self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "elastane.engines.ray.warden", self._address.to_json()),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                cwd="/",
                env={**self._environment, "RAY_USAGE_STATS_ENABLED": "0"},
                start_new_session=True,
                limit=_LINE_BYTES,
            )
        assert process.stdout is not None
        try:
            self._wish()
            while line := await process.stdout.readline():
                self._hear(line)
            if not self._lasting:
                self._say(self.problem or "Ray does not answer: running jobs go on, new machines cannot come")
        except ValueError as error:  # a line beyond the limit, or of another version
            self._say(f"the warden of Ray was not understood ({error!s:.200})")
        finally:
            self._process = None
            await _end(process)

    def _hear(self, line: bytes) -> None:
        message = FROM_WARDEN.decode(line)
        if isinstance(message, WardenProblem):
            self._lasting = message.lasting
            self._say(f"{message.problem}: running jobs go on, new machines cannot come")
            return
        self.problem = ""
        if message != self.state:
            self.state = message
            self._changed()

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            log.warning("%s", problem)
            self._changed()

    def _wish(self) -> None:
        process = self._process
        if process is None or process.stdin is None or not self._join:
            return
        pools = {name: spec.wish(self._counts[name]) for name, spec in self._pools.items()}
        with contextlib.suppress(OSError):
            process.stdin.write(encode_message(Wish(self._join, pools, self._keep, not self._pools)))

    async def give_back(self) -> None:
        """End all pilots, and so their nodes, as far as Ray answers in time."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.write(encode_message(Wish(self._join, every_node=False, none=True)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GIVE_BACK_S):
                while any(node.pilot for node in self.state.nodes):
                    await asyncio.sleep(_LOOK_S)

    def facts(self) -> Mapping[str, Any]:
        """Describe Ray's cluster for people."""
        nodes = [
            {"name": n.name, "address": n.address, "pool": n.pool, "pilot": n.pilot} for n in self.state.nodes
        ]
        return {
            "version": self.state.version,
            "problem": self.problem,
            "nodes": nodes,
            "waiting": self.state.waiting,
        }


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _CLOSE_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def check_ray(*, insecure: bool, environment: Mapping[str, str]) -> None:
    """See that Ray is here, in a version that we can use, and guarded by a token.

    Raises:
        ElastaneError: it is not; the message says what to do.
    """
    if importlib.util.find_spec("ray") is None:
        raise ElastaneError("--engine ray: Ray is not installed here; pip install 'elastane[ray]'")
    version = metadata.version("ray")
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise ElastaneError(
            f"--engine ray: needs Ray {needed} or newer, here is {version}; pip install -U 'elastane[ray]'"
        )
    guarded = environment.get("RAY_AUTH_MODE", "").lower() == "token"
    if not guarded and not insecure:
        raise ElastaneError(
            "--engine ray: this Ray cluster would be open to whoever reaches it, because RAY_AUTH_MODE is not 'token'; "
            "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH for every process of Ray, or say --insecure"
        )
