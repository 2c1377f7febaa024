"""The clients of the load test, in a process of their own: ``python -m benchmarks.live.load PLAN RESULT``.

Each client has its own token and hands a job in at fixed moments.  What a submission took counts from its moment, so
that a service which keeps clients waiting cannot hide it by slowing them down.

They speak HTTP over plain sockets, one each: a whole HTTP client would take as much of the machine as what it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Who hands in how much, and how fast."""

    url: str
    tokens: list[str]
    submissions: int
    seconds: float
    directory: str
    spec: dict[str, Any]

    def write(self, path: Path) -> None:
        """For the other process."""
        path.write_text(json.dumps(asdict(self)))


@dataclass(frozen=True, slots=True)
class Result:
    """What each submission took, and what went wrong."""

    took_s: list[float]
    problems: list[str]
    ids: list[str]
    wall_s: float
    cpu_s: float
    """What the clients used themselves."""

    @classmethod
    def read(cls, path: Path) -> Result:
        """From the other process."""
        return cls(**json.loads(path.read_text()))


class Caller:
    """One client and its connection."""

    def __init__(self, url: str, token: str) -> None:
        where = urlsplit(url)
        self._host, self._port = str(where.hostname), int(where.port or 80)
        self._head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: {where.netloc}\r\nAuthorization: Bearer {token}\r\n"
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, values: dict[str, Any]) -> tuple[int, bytes]:
        """(status, body) of the answer."""
        body = json.dumps(values).encode()
        head = f"{self._head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        writer.write(head.encode() + body)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        length = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
        return int(lines[0].split()[1]), await reader.readexactly(length)

    def hang_up(self) -> None:
        """The next call dials again."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def run(plan: Plan) -> Result:
    """All clients at once."""
    began_s = time.monotonic() + 0.5
    took_s, problems, ids = list[float](), list[str](), list[str]()

    async def client(number: int, caller: Caller) -> None:
        for turn in range(number, plan.submissions, len(plan.tokens)):
            due_s = began_s + turn * plan.seconds / plan.submissions
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    status, body = await caller.post(
                        {"spec": plan.spec, "directory": plan.directory, "key": f"key-{turn}"}
                    )
            except (OSError, TimeoutError, EOFError, ValueError, StopIteration) as error:
                problems.append(f"{type(error).__name__}: {error}")
                caller.hang_up()
                continue
            took_s.append(time.monotonic() - due_s)
            if status == 201:
                ids.append(json.loads(body)["id"])
            else:
                problems.append(f"{status}: {body[:200].decode(errors='replace')}")
        caller.hang_up()

    await asyncio.gather(*(client(i, Caller(plan.url, token)) for i, token in enumerate(plan.tokens)))
    return Result(took_s, problems, ids, time.monotonic() - began_s, time.process_time())


def main() -> None:
    """Read the plan, write the result."""
    plan = Plan(**json.loads(Path(sys.argv[1]).read_text()))
    result = asyncio.run(run(plan))
    Path(sys.argv[2]).write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
