"""Parses options that take several values separated by commas; every mistake names its option."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from elastane.errors import ElastaneError

V = TypeVar("V", int, float)

_MOST_SEEDS = 1000


def numbers(option: str, text: str) -> list[float]:
    """Parses one or more different numbers."""
    return _values(option, text, float, "numbers")


def seeds(text: str, option: str = "--seed") -> list[int]:
    """Parses one or more different whole numbers from zero up."""
    found = _values(option, text, int, "whole numbers")
    if min(found) < 0:
        raise ElastaneError(f"{option} takes whole numbers from zero up, not {text!r}")
    return found


def seed_ranges(option: str, text: str) -> list[int]:
    """Parses seeds of which some may be written as a range: 0-2,7."""
    spelt: list[str] = []
    for part in text.split(","):
        first, dash, last = (each.strip() for each in part.partition("-"))
        if not (dash and first.isdecimal() and last.isdecimal()):
            spelt.append(part)
        elif not 0 <= int(last) - int(first) < _MOST_SEEDS:
            raise ElastaneError(
                f"{option} takes ranges such as 0-2 of at most {_MOST_SEEDS} seeds, not {part!r}"
            )
        else:
            spelt += map(str, range(int(first), int(last) + 1))
    return seeds(",".join(spelt), option)


def policies(text: str, option: str = "--policy") -> list[str]:
    """Splits one or more different policies and checks them, so that a misspelt one costs no simulation first."""
    from elastane.policies.options import split_policies
    from elastane.policies.registry import make_policy

    written = split_policies(text)
    made = [make_policy(each) for each in written]
    # By what they do, not by how they are written: fifo and fifo(mode=strict) are the same.
    configured = [(type(each), each.parameters()) for each in made]
    repeated = [name for i, name in enumerate(written) if configured[i] in configured[:i]]
    if repeated or not written:
        detail = f"; {repeated[0]} is there twice" if repeated else ""
        raise ElastaneError(f"{option} needs one or more different policies, not {text!r}{detail}")
    return written


def _values(option: str, text: str, convert: Callable[[str], V], kind: str) -> list[V]:
    try:
        found = [convert(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ElastaneError(f"{option} takes {kind} separated by commas, not {text!r}") from None
    if not found:
        raise ElastaneError(f"{option} needs at least one value, not {text!r}")
    if len(set(found)) != len(found):
        raise ElastaneError(f"{option} needs different values, not {text!r}")
    return found
