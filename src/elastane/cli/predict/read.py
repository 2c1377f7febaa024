"""Reads numbers as people write them."""

from __future__ import annotations

from elastane.errors import ElastaneError


def count(text: str, option: str) -> int:
    """A number of samples, as in 1.28M."""
    scales = {"k": 1e3, "m": 1e6, "b": 1e9}
    body, scale = (text[:-1], scales[text[-1].lower()]) if text[-1:].lower() in scales else (text, 1.0)
    try:
        return round(float(body) * scale)
    except (ValueError, OverflowError):
        raise ElastaneError(f"{option} {text!r} is not a number such as 50000, 50k or 1.28M") from None


def counts(text: str) -> list[int]:
    """Numbers of workers, as in 1,2,4."""
    try:
        counts = sorted({int(each) for each in text.split(",")})
    except ValueError:
        raise ElastaneError(f"--gpus {text!r} is not a list such as 1,2,4,8") from None
    if counts[0] < 1:
        raise ElastaneError("--gpus must be 1 or more")
    return counts


def dollars(text: str) -> float:
    """An amount, as in $200."""
    try:
        return float(text.strip().removeprefix("$"))
    except ValueError:
        raise ElastaneError(f"--budget {text!r} is not an amount such as $200") from None
