"""Work that may hang is done aside: nobody but its user is kept waiting."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elastane.engines.contract import Examined
from elastane.engines.deadline_threads import Aside
from elastane.engines.local.engine import LocalEngine
from elastane.errors import ElastaneError
from service.helpers import ANN, SPEC, world


def raising(error: BaseException) -> None:
    raise error


def test_a_look_that_hangs_counts_against_its_user_alone() -> None:
    go_on = threading.Event()

    async def scene() -> None:
        aside = Aside(patience_s=0.01)
        for _ in range(4):
            with pytest.raises(ElastaneError, match="could not be read within"):
                await aside.look("ann", partial(go_on.wait, 60.0))
        with pytest.raises(ElastaneError, match="have not come back"):
            await aside.look("ann", partial(go_on.wait, 60.0))
        with pytest.raises(ElastaneError, match="could not be read within"):
            await aside.look("bob", partial(go_on.wait, 60.0))

    try:
        asyncio.run(scene())
    finally:
        go_on.set()


@pytest.mark.parametrize(
    "error", [MemoryError(), RecursionError("too deep"), ValueError("null"), OSError("gone")]
)
def test_a_look_that_fails_is_a_refusal_in_one_line(error: BaseException) -> None:
    with pytest.raises(ElastaneError, match="command: it could not be looked at"):
        asyncio.run(Aside().look("ann", partial(raising, error)))


def test_an_engine_looks_at_commands_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def examine(*_: Any) -> Examined:
        assert go_on.wait(60.0), "the event loop stood still"
        return Examined("command", "it says so")

    async def scene() -> Examined:
        engine = LocalEngine(tmp_path, {})
        monkeypatch.setattr(engine._examiner, "examine", examine)
        asyncio.get_running_loop().call_soon(go_on.set)
        return await engine.examine("auto", ["python", "train.py"], "/tmp", {}, owner="ann")

    assert asyncio.run(scene()).kind == "command"


def test_of_two_with_one_key_that_are_looked_at_at_once_one_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def examine(*_: Any, **__: Any) -> Examined:
        await asyncio.sleep(0)
        return Examined("command", "it says so")

    with world(tmp_path) as w:
        monkeypatch.setattr(w.engine, "examine", examine)

        async def scene() -> Any:
            return await asyncio.gather(*(w.service.submit(ANN, SPEC, "/tmp", "key") for _ in range(6)))

        told = w.run(scene())
        assert len({each.id for each in told}) == 1
        assert [each.repeated for each in told].count(False) == 1
        assert len(w.plane.live) == 1
