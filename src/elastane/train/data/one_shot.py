"""Things that look iterable but can be read only once; a pass may have to be read again."""

from __future__ import annotations

from collections.abc import Iterator

from elastane.train.errors import TrainError

_MODULES = {"builtins", "itertools", "_io"}


def refuse_one_shot(value: object, what: str) -> None:
    """Raise for generators, ``map``, open files and the like.

    A class of the user's own that is its own iterator may well start anew with every ``iter()``.
    """
    if isinstance(value, Iterator) and type(value).__module__ in _MODULES:
        raise TrainError(
            f"{what} is a {type(value).__name__}, which can be read only once; "
            "pass an object that starts anew with every iter()"
        )
