"""Wakes the loop of the control plane, and remembers what for."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class Wakeup:
    """An event with a reason: of several triggers before a decision the first is kept, for the policy to see."""

    def __init__(self) -> None:
        self._trigger = ""
        self._event = asyncio.Event()

    @property
    def trigger(self) -> str:
        """What a decision is due for; empty if for nothing."""
        return self._trigger

    def poke(self, trigger: str) -> None:
        """Ask for a decision: something happened that it should answer."""
        self._trigger = self._trigger or trigger
        self._event.set()

    def again(self) -> None:
        """Ask for another round, with or without a decision."""
        self._event.set()

    def take_trigger(self) -> str:
        """The reason for a decision that is made now; from then on none is due."""
        trigger, self._trigger = self._trigger, ""
        return trigger

    @contextlib.contextmanager
    def answering(self, trigger: str) -> Iterator[None]:
        """While a decision is made for a reason; a reason that got no answer stands."""
        try:
            yield
        except BaseException:
            self.poke(trigger)
            raise

    def round_begins(self) -> None:
        """Forget who asked for this round; whoever asks from now on gets another."""
        self._event.clear()

    async def wait(self, most_s: float) -> None:
        """Returns when somebody has asked for a round, or the time is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), most_s)
