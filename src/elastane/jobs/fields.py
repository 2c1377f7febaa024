"""The kinds of field in a job spec.  Each refuses what it does not mean; nothing is quietly converted."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from elastane.errors import ElastaneError
from elastane.jobs.problems import conflict, expected
from elastane.jobs.units import BANDWIDTH, DURATION, SIZE, Quantity
from elastane.kit.storage_urls import WITHOUT_SECRETS, problem_of

_CENTURY_S = 100 * 365.25 * 86400
_DEADLINE = f"{DURATION.expected}, or a time with its zone such as 2030-01-31T18:00Z"


class Section(BaseModel):
    """The base class of all spec sections is immutable, strict about types, and closed to unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _reader(quantity: Quantity) -> Callable[[object], float]:
    def read(written: object) -> float:
        try:
            return quantity.read(written)
        except ElastaneError:
            raise expected(quantity.expected) from None

    return read


def _printable(text: str) -> str:
    # NUL ends a string for the operating system; lone surrogates cannot be stored as UTF-8.
    if "\0" in text or re.search("[\ud800-\udfff]", text):
        raise expected("text without NUL or broken characters")
    return text


def _place(written: str) -> str:
    problem = problem_of(written)
    if problem == WITHOUT_SECRETS:
        raise conflict(f"expected {problem}")  # not shown: it would be told on
    if problem:
        raise expected(problem)
    return written


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise expected("a variable name of letters, digits and '_'")
    return name


def _setting(value: object) -> object:
    # A whole number has one spelling; 1.10 or yes would reach the job altered.
    return str(value) if type(value) is int and abs(value) < 10**18 else value


def _deadline(written: object) -> object:
    if isinstance(written, datetime) and written.tzinfo is not None:
        return written.astimezone(UTC)
    try:
        seconds = DURATION.read(written)
    except ElastaneError:
        return _moment(written)
    if seconds > _CENTURY_S:
        raise expected("a deadline within a century")
    return seconds


def _moment(written: object) -> datetime:
    try:
        moment = datetime.fromisoformat(str(written)[:64])
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise expected(_DEADLINE)


def _single_to_list(written: object) -> object:
    if isinstance(written, str):
        return (written,)
    return tuple(written) if isinstance(written, list) else written


Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""A whole number of things, at least one; the limit keeps typing errors out of arithmetic."""

Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
"""A name that is safe in a path, a table and a URL."""

Text = Annotated[str, Field(max_length=32_768), AfterValidator(_printable)]
"""Any text that the operating system takes."""

Filled = Annotated[Text, Field(min_length=1)]
"""A text that may not be empty."""

Place = Annotated[str, Field(max_length=2000), AfterValidator(_place)]
"""A URL or an absolute path, as ``kit.storage_urls`` has it."""

Names = Annotated[tuple[Name, ...], BeforeValidator(_single_to_list), Field(max_length=64)]
"""One name or a list of them."""

Seconds = Annotated[float, BeforeValidator(_reader(DURATION)), Field(le=_CENTURY_S)]
"""A duration, kept in seconds."""

Gigabytes = Annotated[float, BeforeValidator(_reader(SIZE)), Field(le=1e9)]
"""A size, kept in gigabytes."""

Gbps = Annotated[float, BeforeValidator(_reader(BANDWIDTH)), Field(le=1e9)]
"""A bandwidth, kept in gigabits per second."""

Deadline = Annotated[float | datetime, BeforeValidator(_deadline)]
"""Seconds after submission, or a moment (in UTC)."""

Environment = Annotated[
    dict[Annotated[str, AfterValidator(_variable)], Annotated[Text, BeforeValidator(_setting)]],
    Field(max_length=1000),
]
"""Environment variables."""
