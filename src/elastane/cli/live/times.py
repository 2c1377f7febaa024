"""Times and numbers as people say them: ``2 min ago``, ``in 5–9 min``, ``1,234``, ``62 %``.

The only place of the live verbs that looks at a clock.
"""

from __future__ import annotations

import math
import time

from elastane.kit.durations import duration, unit_for


def now_s() -> float:
    """This moment, in Unix seconds."""
    return time.time()


def pause(seconds: float) -> None:
    """Wait before the server is asked again."""
    time.sleep(seconds)


def span(low_s: float, high_s: float) -> str:
    """A range of durations in one unit: ``5–9 min``; a single figure where both round to the same.

    >>> span(300, 540)
    '5–9 min'
    """
    if not (math.isfinite(low_s) and math.isfinite(high_s)):
        return "?"
    low_s, high_s = max(0.0, low_s), max(0.0, low_s, high_s)
    scale, unit = unit_for(max(1.0, high_s))
    low, high = (_few_digits(seconds / scale, unit) for seconds in (low_s, high_s))
    return f"{high} {unit}" if low == high else f"{low}–{high} {unit}"


def ago(at_s: float, now: float) -> str:
    """A moment that has passed."""
    return "just now" if now - at_s < 1 else f"{duration(now - at_s)} ago"


def until(low_s: float, high_s: float, now: float) -> str:
    """A moment to come, known as a range."""
    if high_s <= now:
        return "any moment now"
    return f"within {duration(high_s - now)}" if low_s <= now else f"in {span(low_s - now, high_s - now)}"


def amount(value: float | None) -> str:
    """A rate or a size with about three digits; a dash for what is unknown."""
    if value is None:
        return "–"
    if not math.isfinite(value):
        return "?"
    value += 0.0  # no minus before a zero
    if abs(value) >= 1e6:
        return f"{value / 1e6:,.3g}M" if abs(value) < 1e9 else f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """A fraction of one as a percentage."""
    return "–" if share is None else "?" if not math.isfinite(share) else f"{share:.0%}".replace("%", " %")


def bar(share: float | None, width: int = 10) -> str:
    """A bar for a share of one, and the share in figures."""
    if share is None or not math.isfinite(share):
        return "–"
    full = round(min(1.0, max(0.0, share)) * width)
    return f"{'█' * full}{'░' * (width - full)} {percent(share)}"


def counted(count: int, noun: str) -> str:
    """A count with its noun: ``1 worker``, ``2 workers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _few_digits(value: float, unit: str) -> str:
    # A half of a minute matters where there are two of them, not where there are nine.
    if unit == "s" or value >= 3:
        return f"{value:.0f}"
    return f"{value:.1f}".removesuffix(".0")
