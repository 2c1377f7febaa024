"""The clients of the load test, in a process of their own: ``python -m benchmarks.live.load PLAN RESULT``.

Each client has its own token and hands a job in at fixed moments.  What a submission took counts from its moment, so
that a service which keeps clients waiting cannot hide it by slowing them down.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx


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

    @classmethod
    def read(cls, path: Path) -> Result:
        """From the other process."""
        return cls(**json.loads(path.read_text()))


async def run(plan: Plan) -> Result:
    """All clients at once."""
    began_s = time.monotonic() + 0.5
    took_s, problems, ids = list[float](), list[str](), list[str]()

    async def client(number: int, token: str, http: httpx.AsyncClient) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        for turn in range(number, plan.submissions, len(plan.tokens)):
            due_s = began_s + turn * plan.seconds / plan.submissions
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
            body = {"spec": plan.spec, "directory": plan.directory, "key": f"key-{turn}"}
            try:
                answer = await http.post("/api/v1/jobs", json=body, headers=headers)
            except httpx.HTTPError as error:
                problems.append(f"{type(error).__name__}: {error}")
                continue
            took_s.append(time.monotonic() - due_s)
            if answer.status_code == 201:
                ids.append(answer.json()["id"])
            else:
                problems.append(f"{answer.status_code}: {answer.text[:200]}")

    limits = httpx.Limits(max_connections=len(plan.tokens))
    async with httpx.AsyncClient(base_url=plan.url, timeout=30.0, limits=limits, trust_env=False) as http:
        await asyncio.gather(*(client(i, token, http) for i, token in enumerate(plan.tokens)))
    return Result(took_s, problems, ids, time.monotonic() - began_s)


def main() -> None:
    """Read the plan, write the result."""
    plan = Plan(**json.loads(Path(sys.argv[1]).read_text()))
    result = asyncio.run(run(plan))
    Path(sys.argv[2]).write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
