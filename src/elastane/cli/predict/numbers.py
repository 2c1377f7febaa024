"""Parses numbers as people write them; a mistake is an ``ElastaneError`` that names the option."""

from __future__ import annotations

from collections.abc import Sequence

from elastane.errors import ElastaneError


def count(text: str, option: str) -> int:
    """Parses a number of samples, as in 1.28M."""
    scales = {"k": 1e3, "m": 1e6, "b": 1e9}
    body, scale = (text[:-1], scales[text[-1].lower()]) if text[-1:].lower() in scales else (text, 1.0)
    try:
        return round(float(body) * scale)
    except (ValueError, OverflowError):
        raise ElastaneError(f"{option} {text!r} is not a number such as 50000, 50k or 1.28M") from None


def counts(text: str) -> list[int]:
    """Parses numbers of workers, as in 1,2,4."""
    try:
        counts = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise ElastaneError(f"--gpus {text!r} is not a list such as 1,2,4,8") from None
    if counts[0] < 1:
        raise ElastaneError("--gpus must be 1 or more")
    return counts


def dollars(text: str) -> float:
    """Parses an amount in dollars, as in $200."""
    try:
        return float(text.strip().removeprefix("$"))
    except ValueError:
        raise ElastaneError(f"--budget {text!r} is not an amount such as $200") from None


def epochs(text: str, option: str) -> float:
    """Parses a number of epochs, as in 1, 0.5 or 2epochs."""
    body = text.strip().removesuffix("s").removesuffix("epoch")
    try:
        found = float(body)
    except ValueError:
        found = 0.0
    if not 0.0 < found < float("inf"):
        raise ElastaneError(f"{option} {text!r} is not a number of epochs such as 1 or 0.5epoch")
    return found


def one_of(text: str, known: Sequence[str], option: str) -> str:
    """Returns ``text`` if it is one of the known words."""
    if text not in known:
        raise ElastaneError(f"{option} must be {', '.join(known[:-1])} or {known[-1]}, not {text!r}")
    return text
