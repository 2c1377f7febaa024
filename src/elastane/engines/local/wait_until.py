"""Waits for something on the event loop, look by look, so that whatever else is to be done there goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_SOON_S, _LATER_S = 0.002, 0.05


async def until(done: Callable[[], bool], seconds: float) -> bool:
    """Call ``done`` until it says so, for so long at most; whether it has."""
    clock, wait_s = asyncio.get_running_loop().time, _SOON_S
    deadline = clock() + seconds
    while not done():
        if clock() > deadline:
            return False
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _LATER_S)
    return True
