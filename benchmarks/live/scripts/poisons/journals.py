"""Lines and bytes in a job's reports."""

from __future__ import annotations

import os
import time
from typing import Any

from benchmarks.live.scripts.poisons.place import Place, deed, report
from elastane.train.reports.events import _TYPES

_HUGE = 10**300
_REALS = (
    "at_s",
    "step_s",
    "progress",
    "fraction",
    "loss",
    "compute_s",
    "sync_s",
    "samples_per_s",
    "noise",
    "gain",
)
_COUNTS = (
    "step",
    "epoch",
    "workers",
    "batch",
    "steps",
    "epochs",
    "generation",
    "nodes",
    "per_worker",
    "accumulation",
)
_TWO_GB = 2 << 30
_ANYTHING: tuple[object, ...] = (None, True, "x", 5, 1.5, [], [[]], {}, {"a": None}, {"": [1]})


def window(**changes: Any) -> dict[str, Any]:
    """A report such as an honest job makes, but for the changes."""
    honest = {
        "type": "stepped",
        "at_s": time.time(),
        "step": 10,
        "epoch": 1,
        "workers": 1,
        "batch": 32,
        "steps": 10,
    }
    return {
        **honest,
        "step_s": 0.1,
        "epochs": 10,
        "progress": 10.0,
        "fraction": 0.1,
        "generation": 1,
        **changes,
    }


@deed
def deep_lists(place: Place) -> None:
    """Lists in lists, deeper than any reader's stack."""
    report(place, b"[" * 200_000, b"[" * 30_000 + b"]" * 30_000)


@deed
def deep_objects(place: Place) -> None:
    """The same with objects, one closed and short enough for a line."""
    inner = b'{"a":' * 8_000 + b"1" + b"}" * 8_000
    report(place, b'{"type":"stepped","metrics":' + inner + b"}", b'{"a":' * 100_000)


@deed
def endless_digits(place: Place) -> None:
    """Numbers that take longer to read than to write."""
    report(place, b'{"type":"stepped","at_s":' + b"9" * 60_000 + b"}", b'{"type":"stepped","step":1e999999}')


@deed
def half_characters(place: Place) -> None:
    """Lone surrogates in every text."""
    text = "caf\udce9 \ud800"
    for name, kind in _TYPES.items():
        texts = {field: text for field, fact in kind.__dataclass_fields__.items() if "str" in str(fact.type)}
        report(place, {**window(), "type": name, **texts})


@deed
def huge_numbers(place: Place) -> None:
    """Counts beyond every integer type, and reals at the edge."""
    report(
        place, window(**dict.fromkeys(_COUNTS, _HUGE), **dict.fromkeys(_REALS[1:], 1e308)), window(batch=2**63)
    )


@deed
def negative_numbers(place: Place) -> None:
    """Negative steps, batches, times, workers."""
    report(
        place, window(**dict.fromkeys(_COUNTS, -3), **dict.fromkeys(_REALS[1:], -1e308)), window(step=-(2**63))
    )


@deed
def zeros(place: Place) -> None:
    """What somebody may divide by."""
    report(place, window(**dict.fromkeys(_COUNTS, 0), **dict.fromkeys(_REALS[1:], 0.0)))


@deed
def not_numbers(place: Place) -> None:
    """NaN and infinities, as JSON has them and as the codec writes them."""
    for word in (b"NaN", b"Infinity", b"-Infinity", b'"nan"', b'"inf"', b'"-inf"'):
        for field in _REALS:
            report(place, b'{"type":"stepped","at_s":1.0,"' + field.encode() + b'":' + word + b"}")
        report(place, window(**dict.fromkeys(_REALS, word.decode().strip('"'))))


@deed
def far_clocks(place: Place) -> None:
    """Reports from other ages."""
    report(place, *(window(at_s=at_s) for at_s in (1e308, -1e308, 1e18, -1.0, 0.0, 253402300800.0)))


@deed
def wrong_types(place: Place) -> None:
    """Every field of every kind of event, with a value of every other type."""
    for name, kind in _TYPES.items():
        for field in kind.__dataclass_fields__:
            for value in _ANYTHING:
                report(place, {**window(), "type": name, field: value})


@deed
def missing_fields(place: Place) -> None:
    """Events with nothing but their name, unknown ones, and values that are no events."""
    report(
        place,
        *({"type": name} for name in _TYPES),
        {"type": "nonsense"},
        {"type": 5},
        {"type": []},
        {},
        [],
        5,
        None,
    )


@deed
def absurd_fits(place: Place) -> None:
    """Models of speed that no machine can have."""
    names = ("alpha_c", "beta_c", "alpha_n", "beta_n", "alpha_r", "beta_r", "gamma")
    limits = {"initial": 1, "max_total": 1, "min_local": 1, "max_local": 1, "accumulate": False}
    values: tuple[object, ...] = (0, -1, 1e308, 1e-308, "nan", "inf", _HUGE)
    for value in values:
        fitted = {"type": "fitted", "at_s": time.time(), "params": dict.fromkeys(names, value), "noise": value}
        report(place, {**fitted, "limits": limits, "max_profiled": 1})
        report(place, {**fitted, "limits": dict.fromkeys(limits, -5), "max_profiled": -1})


@deed
def absurd_resizes(place: Place) -> None:
    """Resizes that never were, to sizes that cannot be, far from now."""
    for at_s, before, after in (
        (time.time() + 1e7, 1, 1),
        (1e18, -5, _HUGE),
        (time.time(), 0, 10**9),
        (0.0, 2, -1),
    ):
        told = {"type": "resized", "at_s": at_s, "kind": "grow", "before": before, "after": after}
        report(place, {**told, "generation": _HUGE, "step": _HUGE, "pause_s": -1e300})
        report(place, {**told, "generation": 1, "step": 1, "pause_s": 1e300, "breakdown": {"\x1b[2J": -1.0}})


@deed
def forged_ends(place: Place) -> None:
    """The end of the run, told by the run."""
    for outcome in ("finished", "failed", "stopped", "\x1b[31m"):
        report(
            place, {"type": "ended", "at_s": time.time(), "outcome": outcome, "cause": "x" * 50_000, "step": 5}
        )


@deed
def swift_progress(place: Place) -> None:
    """A job that says it is done, then at its beginning, then done again, to lure the policy."""
    for number in range(200):
        report(place, window(step=number, progress=1e6 * (number % 2), fraction=float(number % 2), step_s=1e-9))


@deed
def many_metrics(place: Place) -> None:
    """Ten thousand names of metrics."""
    for first in range(0, 10_000, 500):
        report(place, window(metrics={f"metric {first + i}": 1.0 for i in range(500)}))


@deed
def terminal_escapes(place: Place) -> None:
    """Texts that would paint the screen of whoever looks."""
    text = "\x1b]0;owned\x07\x1b[2J\x1b[31m<script>alert(1)</script>\r\n" * 500
    report(place, {"type": "warned", "at_s": time.time(), "text": text})


@deed
def binary(place: Place) -> None:
    """Bytes that are no text, with and without ends of lines, and NULs."""
    report(place, os.urandom(1 << 20), b"\0" * 100_000, b"\xff\xfe" * 1000, b"\n" * 500_000)


@deed
def many_events(place: Place) -> None:
    """300,000 reports at once."""
    for first in range(0, 300_000, 10_000):
        report(place, *(window(step=first + i, progress=float(first + i)) for i in range(10_000)))


@deed
def many_resizes(place: Place) -> None:
    """20,000 changes of size at once, each of which would be stored."""
    for first in range(0, 20_000, 5_000):
        report(place, *(_resize(first + number) for number in range(5_000)))


def _resize(number: int) -> dict[str, Any]:
    told = {"type": "resized", "at_s": time.time(), "kind": "grow", "before": 1, "after": 1 + number % 2}
    return {**told, "generation": number, "step": number, "pause_s": 0.1}


@deed
def endless_events(place: Place) -> None:
    """Thousands of reports a second for as long as twelve seconds."""
    until_s, step = time.monotonic() + 12.0, 0
    while time.monotonic() < until_s:
        report(place, *(window(step=step + i, progress=float(step + i)) for i in range(200)))
        step += 200
        time.sleep(0.05)


@deed
def two_gb_line(place: Place) -> None:
    """A line of two gigabytes that takes no room on the disk."""
    for path in place.journals:
        with path.open("ab") as file:
            file.truncate(file.tell() + _TWO_GB)
            file.seek(0, os.SEEK_END)
            file.write(b"\n")


@deed
def growing_line(place: Place) -> None:
    """A line that goes on: a megabyte every tenth of a second."""
    until_s = time.monotonic() + 4.0
    while time.monotonic() < until_s:
        for path in place.journals:
            with path.open("ab") as file:
                file.write(b"x" * (1 << 20))
        time.sleep(0.1)


@deed
def emptied(place: Place) -> None:
    """A journal that becomes shorter than what was read of it, then longer again."""
    report(place, *(window(step=i) for i in range(100)))
    time.sleep(0.5)
    for path in place.journals:
        os.truncate(path, 0)
    time.sleep(0.5)
    report(place, *(window(step=i) for i in range(200)))
