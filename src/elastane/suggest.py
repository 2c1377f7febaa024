"""The nearest known name for a misspelt one: fields, policies, parameters, job names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 64  # nobody misspells a longer name; comparing a pasted document would only cost time


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name most like ``word``, upper and lower case alike, or None if none is close.

    >>> nearest("worker", ["workers", "weight"])
    'workers'
    """
    if len(word) > _LONGEST:
        return None
    by_folded = {name.casefold(): name for name in sorted(known, reverse=True)}
    close = get_close_matches(word.casefold(), sorted(by_folded), n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The tail of an error message: ``"; did you mean 'workers'?"``, or nothing if no name is close."""
    guess = nearest(word, known)
    return f"; did you mean {guess!r}?" if guess else ""
