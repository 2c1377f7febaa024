"""Shows the progress of a run on a terminal: one line that stays at the bottom, messages and output above it.

Without a terminal it is plain text: a progress line at intervals, and one for every notable event.  The display
only shows what events say; it must never end a run, so a terminal that goes away silences it.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from elastane.train.reports.eta import Eta
from elastane.train.reports.events import (
    Diverged,
    Ended,
    Event,
    Limited,
    Stepped,
    Straggler,
    Warned,
    WorkerLost,
)
from elastane.train.reports.script_output import LineKeeper
from elastane.train.reports.wording import finite, progress_parts, sentence

PLAIN_EVERY_S = 10.0
"""Least time between two progress lines where there is no terminal."""

_REDRAW_EVERY_S = 0.1
_BAR_WIDTH = 20
_LEAST_WIDTH_FOR_BAR = 80


class ProgressDisplay:
    """Shows events as they come; safe to call from several threads.  ``clock`` counts seconds from anywhere."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._lock = threading.RLock()
        self._eta = Eta()
        self._script = LineKeeper()
        self._drawn_s: float | None = None
        self._closed = False
        # The cursor stands behind the bar, so only lines that pass through here may be printed meanwhile.
        live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._live = live if console.is_interactive else None

    def show(self, event: Event) -> None:
        """Updates the display with an event."""
        with self._lock:
            self._eta.observe(event)
            if isinstance(event, Stepped) and not self._closed:
                self._draw(event)
            text = sentence(event)
            if text is not None:
                self._emit(Text(text, _style(event)))

    def print(self, text: str, source: str = "") -> None:
        """Passes script output through, in pieces of any size: only whole lines of one source are printed."""
        with self._lock:
            for line in self._script.feed(text, source):
                self._emit(Text.from_ansi(line) if self._live else Text(line))

    def stream(self, original: IO[str], source: str = "") -> io.TextIOBase:
        """Returns a file that replaces ``original`` (standard output, say) while the display is on it."""
        return _ScriptStream(self, original, source)

    def close(self) -> None:
        """Removes the progress line and prints the rest of the script's output; may be called twice."""
        with self._lock, suppress(OSError):
            self._closed = True
            if self._live:
                self._live.stop()
            for line in self._script.finish():
                self._emit(Text.from_ansi(line) if self._live else Text(line))

    def _draw(self, step: Stepped) -> None:
        now_s, every_s = self._clock(), _REDRAW_EVERY_S if self._live else PLAIN_EVERY_S
        if self._drawn_s is not None and now_s - self._drawn_s < every_s:
            return
        self._drawn_s = now_s
        line = _ProgressLine(step, self._eta.remaining_s)
        if self._live is None:
            self._emit(Text(line.plain()))
            return
        with suppress(OSError):
            self._live.start()
            self._live.update(line, refresh=True)

    def _emit(self, text: Text) -> None:
        file = self._console.file
        encoding = getattr(file, "encoding", None) or "utf-8"
        with suppress(OSError):
            if self._live:
                self._console.print(text, soft_wrap=True, highlight=False)
            else:
                # Not through rich, which would end the process if a reader of this pipe had left.
                file.write(text.plain.encode(encoding, "replace").decode(encoding) + "\n")
                file.flush()


class _ProgressLine:
    """A progress line that fits any width: it drops the bar first, then the least important parts."""

    def __init__(self, step: Stepped, remaining_s: float | None) -> None:
        self._fraction = finite(step.fraction)
        self._parts = progress_parts(step, remaining_s)

    def plain(self) -> str:
        """Returns all parts as text, without a bar."""
        return " · ".join(text for _, text in self._parts)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fraction = self._fraction if options.max_width >= _LEAST_WIDTH_FOR_BAR else None
        text = self._fitting(options.max_width - (0 if fraction is None else _BAR_WIDTH + 1))
        cells: list[Text | ProgressBar] = [Text(text, no_wrap=True, overflow="ellipsis")]
        if fraction is not None:
            cells.insert(0, ProgressBar(total=1.0, completed=fraction, width=_BAR_WIDTH))
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_row(*cells)
        yield grid

    def _fitting(self, width: int) -> str:
        kept = list(self._parts)
        while len(kept) > 1 and len(" · ".join(text for _, text in kept)) > width:
            kept.remove(max(kept))
        return " · ".join(text for _, text in kept)


class _ScriptStream(io.TextIOBase):
    """A text stream whose output goes through a display."""

    def __init__(self, display: ProgressDisplay, original: IO[str], source: str) -> None:
        self._display, self._source = display, source
        self.rich_proxied_file = original  # rich writes there even if this stands in the place of stdout

    def write(self, text: str) -> int:
        self._display.print(text, self._source)
        return len(text)

    def isatty(self) -> bool:
        return self.rich_proxied_file.isatty()

    def fileno(self) -> int:
        return self.rich_proxied_file.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(self.rich_proxied_file, "encoding", None) or "utf-8"


def _style(event: Event) -> str:
    match event:
        case WorkerLost() | Diverged():
            return "bold red"
        case Straggler() | Warned() | Limited():
            return "yellow"
        case Ended():
            return "bold green" if event.outcome == "finished" else "bold red"
    return "cyan"
