"""Script output passes through whole: nothing lost, nothing broken, nothing of two sources in one line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elastane.train.reports.script_output import LineKeeper

TEXTS = st.lists(st.text(alphabet="ab \n", max_size=12), max_size=10)


@given(TEXTS)
def test_lines_are_those_of_the_whole_text_however_it_was_cut(pieces: list[str]) -> None:
    keeper = LineKeeper()
    lines = [line for piece in pieces for line in keeper.feed(piece)]
    lines += keeper.finish()
    assert lines == "".join(pieces).removesuffix("\n").split("\n") or ("".join(pieces) == "" and lines == [])


@given(TEXTS, TEXTS)
def test_sources_do_not_mix(ours: list[str], theirs: list[str]) -> None:
    alone, together = LineKeeper(), LineKeeper()
    expected = [line for piece in ours for line in alone.feed(piece)]
    found = []
    for i in range(max(len(ours), len(theirs))):
        found += together.feed("".join(ours[i : i + 1]), "ours")
        list(together.feed("".join(theirs[i : i + 1]), "theirs"))
    assert found == expected


def test_a_line_that_was_written_over_comes_out_as_it_looked_last() -> None:
    keeper = LineKeeper()
    assert list(keeper.feed("\r 10%\r 20%")) == []
    assert list(keeper.feed("\r100%\nnext\r\n")) == ["100%", "next"]


def test_the_end_of_a_windows_line_may_come_in_two_pieces() -> None:
    keeper = LineKeeper()
    assert list(keeper.feed("x" * 5000 + "\r")) == []
    assert list(keeper.feed("\n")) == ["x" * 5000]
    assert list(keeper.feed("x" * 5000 + "\r")) == []
    assert list(keeper.feed("done\n")) == ["done"]


def test_a_bar_redrawn_for_hours_takes_no_memory_and_a_long_line_is_not_cut() -> None:
    keeper = LineKeeper()
    for i in range(10_000):
        list(keeper.feed(f"\r{i % 100:3}% " + "#" * 60))
    assert len(keeper._rest[""]) < 10_000
    assert list(keeper.feed("\n")) == [" 99% " + "#" * 60]
    list(keeper.feed("y" * 100_000))
    assert list(keeper.finish()) == ["y" * 100_000]
    assert list(keeper.finish()) == []
