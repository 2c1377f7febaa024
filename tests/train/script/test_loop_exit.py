"""A loop that an error has left is told from one that was left by ``break``."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from elastane.train.script.loop_exit import LoopExit


class Watched:
    def __init__(self) -> None:
        self.loop_exit: LoopExit | None = None

    def __iter__(self) -> Iterator[int]:
        try:
            yield from range(10)
        except GeneratorExit as leaving:
            self.loop_exit = LoopExit.now(leaving)
            raise


def fail(*_: object) -> None:
    raise MemoryError


def raised_in_body(watched: Watched) -> None:
    for number in watched:
        if number == 2:
            fail()


def raised_below_an_enumeration(watched: Watched) -> None:
    for pair in enumerate(zip(watched, range(5), strict=False)):
        fail(pair)


def closed_while_cleaning_up(watched: Watched) -> None:
    held = [iter(watched)]
    try:
        fail(next(held[0]))
    except MemoryError:
        held.clear()
        raise


def broken_off_before(watched: Watched) -> None:
    for number in watched:
        if number == 2:
            break
    fail()


def broken_off_in_a_function(watched: Watched) -> None:
    def loop() -> None:
        for _ in watched:
            return

    loop()
    fail()


@pytest.mark.parametrize(
    ("script", "by_error"),
    [
        (raised_in_body, True),
        (raised_below_an_enumeration, True),
        (closed_while_cleaning_up, True),
        (broken_off_before, False),
        (broken_off_in_a_function, False),
    ],
)
def test_who_left_the_loop(script: Callable[[Watched], None], by_error: bool) -> None:
    watched = Watched()
    with pytest.raises(MemoryError) as caught:
        script(watched)
    assert watched.loop_exit is not None
    assert watched.loop_exit.was_by(caught.value) == by_error
