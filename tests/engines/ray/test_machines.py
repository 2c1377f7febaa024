"""The control plane and its warden: without Ray, by a program that talks like one."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from pathlib import Path

import pytest

from elastane.engines.ray import machines
from elastane.engines.ray.machines import RayMachines, check_ray
from elastane.engines.ray.pools import parse_pool
from elastane.engines.ray.warden import Address
from elastane.errors import ElastaneError

TALKS = """
    import json, sys
    def say(**message): print(json.dumps(message), flush=True)
    for line in sys.stdin:
        wish = json.loads(line)
        open(sys.argv[1] + "/wishes", "a").write(line)
        held = [{"id": str(i), "name": f"n{i}", "address": "", "pool": p, "pilot": True}
                for p, w in wish.get("pools", {}).items() for i in range(w["count"])]
        say(type="state", nodes=held, version="2.60.0")
        if len(held) == 3:
            sys.exit(1)
"""
REFUSED = """
    print('{"type":"problem","problem":"Ray at x does not accept our token; do this","lasting":true}', flush=True)
"""


def talking(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    """Has this program started in place of the warden."""
    program = folder / "warden.py"
    program.write_text(textwrap.dedent(text))
    real = asyncio.create_subprocess_exec

    async def start(*words: str, **options: object) -> asyncio.subprocess.Process:
        assert words[1:3] == ("-m", "elastane.engines.ray.warden")
        return await real(sys.executable, str(program), str(folder), **options)  # type: ignore[arg-type]

    monkeypatch.setattr(machines.asyncio, "create_subprocess_exec", start)
    monkeypatch.setattr(machines, "_FIRST_S", 0.0)


async def reached(condition: object, news: asyncio.Event) -> None:
    async with asyncio.timeout(30):
        while not condition():  # type: ignore[operator]
            news.clear()
            await news.wait()


def test_what_is_wanted_reaches_the_next_warden_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talking(monkeypatch, tmp_path, TALKS)

    async def story() -> None:
        news = asyncio.Event()
        pool = parse_pool("p:gpus=1,least=1,most=3")
        there = RayMachines(tmp_path, Address("x", "c"), [pool])
        task = asyncio.create_task(there.run("elastane://x", news.set))
        await reached(lambda: there.pools()["p"].now == 1, news)
        there.want("p", 9, ["n0"])  # beyond its most: then the warden dies
        await reached(lambda: there.pools()["p"].now == 3, news)
        await reached(lambda: "does not answer" in there.problem, news)
        there.want("p", 2, [])
        await reached(lambda: not there.problem and there.pools()["p"].now == 2, news)
        await there.give_back()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not any(node.pilot for node in there.state.nodes)

    asyncio.run(story())


def test_a_refusal_that_lasts_is_told_and_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talking(monkeypatch, tmp_path, REFUSED)

    async def story() -> None:
        there = RayMachines(tmp_path, Address("x", "c"), [])
        await asyncio.wait_for(there.run("elastane://x", lambda: None), 30)
        assert there.problem.startswith("Ray at x does not accept our token; do this")
        assert "running jobs go on" in there.facts()["problem"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("version", "environment", "insecure", "problem"),
    [
        ("2.51.1", {"RAY_AUTH_MODE": "token"}, False, "needs Ray 2.52 or newer, here is 2.51.1"),
        ("2.60.0", {}, False, "RAY_AUTH_MODE=token"),
        ("2.60.0", {"RAY_AUTH_MODE": "token"}, False, ""),
        ("3.0.0.dev1", {}, True, ""),
    ],
)
def test_ray_must_be_new_enough_and_guarded(
    version: str, environment: dict[str, str], insecure: bool, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines.importlib.util, "find_spec", lambda _: object())
    monkeypatch.setattr(machines.metadata, "version", lambda _: version)
    if not problem:
        check_ray(insecure=insecure, environment=environment)
        return
    with pytest.raises(ElastaneError, match=problem):
        check_ray(insecure=insecure, environment=environment)


def test_who_has_no_ray_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ElastaneError, match=r"pip install 'elastane\[ray\]'"):
        check_ray(insecure=False, environment={})
