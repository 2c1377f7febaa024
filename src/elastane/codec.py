"""Converts frozen dataclasses to JSON objects and back, driven by their type annotations.

Reading is forgiving about what another version may have added or left out, and strict about everything else:
an unknown field is ignored, a missing optional one takes its default, a value of the wrong kind is refused.
JSON has no infinities, so ``nan``, ``inf`` and ``-inf`` travel as strings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from elastane.errors import ElastaneError

Value = TypeVar("Value")
_Reader = Callable[[Any], Any]

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encoded(value: object) -> Any:
    """Encode a value of a dataclass, or a part of one, as JSON values."""
    kind: Any = type(value)
    if kind in _AS_THEY_ARE:  # most are: the rest is asked in the order of how slow the question is
        return value
    if kind is float:
        return value if math.isfinite(value) else str(value)  # type: ignore[arg-type]
    names = _names(kind)
    if names is not None:
        return {name: encoded(getattr(value, name)) for name in names}
    return _encoded_other(value)


_AS_THEY_ARE = frozenset({NoneType, str, bool, int})


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """List the fields of a dataclass; None for anything else."""
    if not is_dataclass(kind) or issubclass(kind, Enum | Mapping):
        return None
    return tuple(field.name for field in fields(kind) if field.init)


def _encoded_other(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {str(name): encoded(each) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: encoded(each) for name, each in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [encoded(each) for each in value]
    if isinstance(value, Real):  # numpy's numbers, among others; asked late because the question is slow
        return int(value) if isinstance(value, Integral) else encoded(float(value))
    raise TypeError(f"a report cannot carry a {type(value).__name__}")


def decoded(kind: type[Value], document: object) -> Value:
    """Decode the value of dataclass ``kind`` that ``document`` describes.

    Raises:
        ValueError: a required field is missing, or a field holds something of another kind.
    """
    if not isinstance(document, Mapping):
        raise ValueError(f"not an object: {document!r:.80}")
    described: Any = kind
    found = {}
    for name, required, read in _fields(described):
        if name in document:
            try:
                found[name] = read(document[name])
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        elif required:
            raise ValueError(f"{name} is missing")
    try:
        return kind(**found)
    except ElastaneError as error:
        raise ValueError(str(error)) from error


@cache
def _fields(kind: type[Any]) -> tuple[tuple[str, bool, _Reader], ...]:
    hints = get_type_hints(kind)
    return tuple(
        (field.name, field.default is MISSING and field.default_factory is MISSING, _reader(hints[field.name]))
        for field in fields(kind)
        if field.init
    )


def _reader(hint: Any) -> _Reader:
    """Make the function that reads what an annotation promises."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return lambda value: _member(hint, value)
    if origin is Literal:
        return lambda value: _one_of(value, inner)
    if origin is UnionType:
        read = _reader(next(each for each in inner if each is not NoneType))
        return lambda value: None if value is None else read(value)
    if origin is tuple:
        each = _reader(inner[0])
        return lambda value: tuple(each(item) for item in _of_kind(value, list))
    if isinstance(origin, type) and issubclass(origin, tuple):
        return lambda value: _named_floats(origin, value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        each = _reader(inner[1])
        return lambda value: {name: each(item) for name, item in _of_kind(value, dict).items()}
    return lambda value: decoded(hint, value)


def _member(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except (ValueError, TypeError):
        raise ValueError(f"not a {kind.__name__}: {value!r:.80}") from None


def _of_kind(value: Any, kind: type[Any]) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"not a {kind.__name__}: {value!r:.80}")
    return value


def _one_of(value: Any, allowed: tuple[Any, ...]) -> Any:
    if value not in allowed:
        raise ValueError(f"not one of {', '.join(map(str, allowed))}: {value!r:.80}")
    return value


def _float(value: Any) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"not a number: {value!r:.80}")
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError("a number too large to be one") from error


def _int(value: Any) -> int:
    number = _float(value)
    if not number.is_integer():
        raise ValueError(f"not a whole number: {value!r:.80}")
    return int(value)


def _named_floats(kind: Any, value: Any) -> Any:
    numbers = _of_kind(value, dict)
    missing = [name for name in kind._fields if name not in numbers]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return kind(*(_float(numbers[name]) for name in kind._fields))


_PLAIN: dict[Any, _Reader] = {
    int: _int,
    float: _float,
    str: lambda value: _of_kind(value, str),
    bool: lambda value: _of_kind(value, bool),
}
