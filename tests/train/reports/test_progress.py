"""The progress display: one line at the bottom of a terminal, sparse text elsewhere, script output untouched."""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stdout
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from elastane.train.reports.events import Ended, Evaluated, Event, Resized, Started, Stepped, Warned, WorkerLost
from elastane.train.reports.progress import PLAIN_EVERY_S, ProgressDisplay
from elastane.train.reports.wording import milliseconds, progress_parts, sentence
from train.reports.strategies import ANY_EVENT

STEP = Stepped(
    100.0, step=12_345, epoch=12, workers=4, batch=512, steps=10, step_s=0.1, epochs=30, fraction=0.423, loss=0.4321,
    samples_per_s=8123.4, efficiency=0.91,
)  # fmt: skip
PAUSE = Resized(101.0, 3, "grow", 2, 4, 12_300, 0.0123, shadow=True)
CODE = re.compile(r"\x1b\[(\?)?(\d*)([A-Za-z])")


class Screen:
    """As much of a terminal as a live line needs: cursor up, erase line, carriage return."""

    def __init__(self) -> None:
        self.lines = [""]
        self.row = self.column = 0

    def write(self, text: str) -> None:
        position = 0
        for match in CODE.finditer(text):
            self._plain(text[position : match.start()])
            self._code(match)
            position = match.end()
        self._plain(text[position:])

    def _code(self, match: re.Match[str]) -> None:
        if match[3] == "A":
            self.row -= int(match[2] or 1)
        elif match[3] == "K":
            self.lines[self.row] = ""
        else:
            assert match[3] in "mhl", match[0]

    def _plain(self, text: str) -> None:
        for char in text:
            if char == "\n":
                self.row, self.column = self.row + 1, 0
                self.lines += [""] * (self.row - len(self.lines) + 1)
            elif char == "\r":
                self.column = 0
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
                self.column += 1


class Desk:
    """A display with its clock in hand, and what it has written so far."""

    def __init__(self, terminal: bool, width: int = 160) -> None:
        self.now_s = 0.0
        self.file = io.StringIO()
        self.console = Console(
            file=self.file, force_terminal=terminal, force_interactive=terminal, width=width, color_system=None
        )
        self.display = ProgressDisplay(self.console, lambda: self.now_s)

    def show(self, event: Event, after_s: float = 1.0) -> None:
        self.now_s += after_s
        self.display.show(event)

    @property
    def lines(self) -> list[str]:
        if not self.console.is_terminal:
            return self.file.getvalue().splitlines()
        screen = Screen()
        screen.write(self.file.getvalue())
        return [line.rstrip() for line in screen.lines]


def test_the_line_says_how_far_how_fast_and_how_long() -> None:
    desk = Desk(terminal=True)
    for second in range(5):
        desk.show(replace(STEP, at_s=100.0 + second, fraction=0.40 + second / 100))
    (line,) = desk.lines
    for part in ("44.0%", "epoch 13/30", "step 12,345", "loss 0.4321", "4 workers", "batch 512"):
        assert part in line
    for part in ("8,123 samples/s", "efficiency 91%", "56 s left"):
        assert part in line


def test_what_is_not_known_is_not_shown() -> None:
    desk = Desk(terminal=True)
    desk.show(replace(STEP, fraction=None, loss=None, efficiency=None, epochs=None))
    (line,) = desk.lines
    assert line == "epoch 13 · step 12,345 · 4 workers · batch 512 · 8,123 samples/s"


@pytest.mark.parametrize("width", [10, 20, 40, 60, 79, 80, 100, 120, 200])
def test_it_is_one_line_whatever_the_width_and_the_least_telling_goes_first(width: int) -> None:
    desk = Desk(terminal=True, width=width)
    for second in range(5):
        desk.show(replace(STEP, at_s=100.0 + second, fraction=0.40 + second / 100))
    (line,) = desk.lines
    assert len(line) <= width
    assert "44.0%" in line
    assert ("56 s left" in line) >= ("step 12,345" in line)
    assert ("step 12,345" in line) >= ("loss" in line) >= ("batch" in line) >= ("efficiency" in line)


def test_a_share_that_is_no_number_shows_no_bar() -> None:
    desk = Desk(terminal=True)
    desk.show(replace(STEP, fraction=float("nan")))
    assert desk.lines[0].startswith("epoch 13/30")


def test_standard_output_is_left_alone_unless_asked() -> None:
    before = sys.stdout, sys.stderr
    desk = Desk(terminal=True)
    desk.show(STEP)
    assert (sys.stdout, sys.stderr) == before


def test_messages_stand_above_the_line_and_the_line_is_gone_at_the_end() -> None:
    desk = Desk(terminal=True)
    lost, end = (
        WorkerLost(102.0, "w3", "killed by signal 9", 12_400),
        Ended(103.0, "finished", "", 12_500, 99.0),
    )
    desk.show(STEP)
    desk.show(PAUSE)
    desk.show(STEP)
    desk.show(lost)
    assert desk.lines[:2] == [sentence(PAUSE), sentence(lost)]
    assert "step 12,345" in desk.lines[2]
    desk.show(end)
    desk.display.close()
    desk.display.close()
    assert [line for line in desk.lines if line] == [sentence(PAUSE), sentence(lost), sentence(end)]


def test_a_resize_is_told_with_its_pause_in_milliseconds() -> None:
    assert sentence(Evaluated(1.0, 21, 1320, {"accuracy": 0.5})) == "evaluated at step 1,320: accuracy 0.5"
    assert sentence(Evaluated(1.0, 0, 48, {})) == "evaluated at step 48"
    assert sentence(PAUSE) == "grew 2 → 4 workers at step 12,300, pause 12 ms (shadow join)"


@given(st.lists(st.text(alphabet="ab \n", max_size=9) | st.sampled_from([STEP, PAUSE]), max_size=15))
def test_script_output_comes_out_line_by_line_whatever_is_shown_meanwhile(doings: list[str | Event]) -> None:
    for terminal in (True, False):
        desk = Desk(terminal)
        for doing in doings:
            desk.display.print(doing) if isinstance(doing, str) else desk.show(doing, after_s=0.05)
        desk.display.close()
        written = "".join(doing for doing in doings if isinstance(doing, str)).removesuffix("\n").split("\n")
        ours = [line for line in desk.lines if line != sentence(PAUSE) and "12,345" not in line]
        assert [line.rstrip() for line in ours if line.strip()] == [
            line.rstrip() for line in written if line.strip()
        ]


def test_blank_lines_of_a_script_stay() -> None:
    desk = Desk(terminal=False)
    desk.display.print("a\n\n\nb\n")
    assert desk.lines == ["a", "", "", "b"]


def test_long_lines_of_a_script_are_not_wrapped_or_cut() -> None:
    for terminal in (True, False):
        desk = Desk(terminal, width=40)
        desk.show(replace(STEP, loss=None))
        desk.display.print("[b]" + "x" * 100 + "\n")
        assert "[b]" + "x" * 100 in desk.lines


def test_colours_of_a_script_are_kept_away_from_a_terminal_as_they_were() -> None:
    desk = Desk(terminal=False)
    desk.display.print("\x1b[31mred\x1b[0m\n")
    assert desk.file.getvalue() == "\x1b[31mred\x1b[0m\n"


def test_printing_in_place_of_stdout_does_not_break_lines() -> None:
    desk = Desk(terminal=True)
    desk.show(STEP)
    with redirect_stdout(desk.display.stream(sys.stdout)):  # type: ignore[type-var]
        print("half", end="", flush=True)
        desk.show(PAUSE)
        print(" and half")
    assert desk.lines[:2] == [sentence(PAUSE), "half and half"]


def test_a_display_on_stdout_itself_may_stand_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    original = io.StringIO()
    monkeypatch.setattr(sys, "stdout", original)
    display = ProgressDisplay(Console(force_terminal=True, force_interactive=True), lambda: 0.0)
    with redirect_stdout(display.stream(sys.stdout)):  # type: ignore[type-var]
        print("once")
    assert original.getvalue().count("once") == 1


def test_away_from_a_terminal_a_line_comes_at_most_every_ten_seconds() -> None:
    desk = Desk(terminal=False)
    for _ in range(100):
        desk.show(STEP)
    assert len(desk.lines) == 100 / PLAIN_EVERY_S
    assert all(line.startswith("42.3% · epoch 13/30 · step 12,345") for line in desk.lines)
    assert "\x1b" not in desk.file.getvalue()


def test_away_from_a_terminal_every_message_is_a_line() -> None:
    desk = Desk(terminal=False)
    for _ in range(3):
        desk.show(PAUSE)
        desk.show(Warned(1.0, "checkpoint step-900\nis torn"))
    assert desk.lines == [sentence(PAUSE), "warning: checkpoint step-900 is torn"] * 3


def test_the_bar_does_not_come_back_after_the_end() -> None:
    desk = Desk(terminal=True)
    desk.display.close()
    desk.show(STEP)
    assert desk.lines == [""]


def test_a_backlog_of_events_is_not_drawn_one_by_one() -> None:
    desk = Desk(terminal=True)
    for _ in range(1000):
        desk.show(STEP, after_s=0.001)
    assert desk.file.getvalue().count("step 12,345") <= 11


def test_a_reader_that_has_left_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    display = ProgressDisplay(Console(file=Gone()), lambda: 0.0)
    display.show(STEP)
    display.show(PAUSE)
    display.print("hello\n")
    display.close()


def test_an_encoding_without_our_signs_does_not_end_the_run() -> None:
    raw = io.BytesIO()
    display = ProgressDisplay(Console(file=io.TextIOWrapper(raw, encoding="ascii")), lambda: 0.0)
    display.show(PAUSE)
    assert raw.getvalue().startswith(b"grew 2 ? 4 workers")


@given(st.lists(ANY_EVENT, max_size=8))
def test_whatever_was_said_can_be_shown(events: list[Event]) -> None:
    for terminal in (True, False):
        desk = Desk(terminal)
        for event in events:
            desk.show(event, after_s=20.0)
        desk.display.close()
        assert len([line for line in desk.lines if line]) >= len([e for e in events if sentence(e)])


def test_what_a_script_does_not_say_is_not_shown_as_zero() -> None:
    horovod = Started(0.0, "r", "s.py", "horovod", 2, 0, 0)
    assert sentence(horovod) == "started r: s.py, mode horovod, 2 workers"
    window = Stepped(1.0, step=5, epoch=0, workers=2, batch=0, steps=5, step_s=0.1)
    assert not [text for _, text in progress_parts(window, None) if "batch" in text or "samples/s" in text]
    assert milliseconds(3.2e-05) == "0.03 ms"
    assert milliseconds(1e-9) == "0 ms"
