"""Reading a body: no larger, slower, deeper or stranger than it has to be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from email.message import Message
from typing import Any, NoReturn

from starlette.requests import Request

from elastane.service.api.errors import Refused
from elastane.service.api.settings import ApiSettings

_DEEPEST = 64


class StrictRequest(Request):
    """A request whose body is bounded JSON in UTF-8."""

    def __init__(self, request: Request, settings: ApiSettings) -> None:
        super().__init__(request.scope, request.receive)
        self._settings = settings

    async def body(self) -> bytes:
        """The whole body, if it is of a reasonable size and arrives in a reasonable time."""
        if not hasattr(self, "_whole"):
            try:
                async with asyncio.timeout(self._settings.body_s):
                    self._whole = await self._read()
            except TimeoutError:
                raise Refused(408, "slow", "the body took too long to arrive; send it again") from None
        return self._whole

    async def _read(self) -> bytes:
        most = self._settings.body_bytes
        told = self.headers.get("content-length", "0")
        size, chunks = int(told) if told.isdecimal() else 0, []
        if size <= most:
            size = 0
            async for chunk in self.stream():
                size += len(chunk)
                chunks.append(chunk)
                if size > most:
                    break
        if size > most:
            raise Refused(413, "too large", f"the body is larger than {most:,} bytes; send less")
        return b"".join(chunks)

    async def json(self) -> Any:
        """The body as JSON values; ``Refused`` if it is malformed."""
        return read_json(await self.body())


def must_be_json(request: Request, expected: bool) -> None:
    """Refuse a body of another type; where one is expected its type must be told."""
    carries = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
    told = Message()
    told["content-type"] = request.headers.get("content-type", "")
    charset = told.get_content_charset("utf-8")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if (expected or carries) and (kind != "application/json" or charset not in ("utf-8", "utf8")):
        raise Refused(
            415, "media type", "the body must be JSON in UTF-8; send 'Content-Type: application/json'"
        )


def must_be_bytes(request: Request) -> None:
    """Refuse a body that is not said to be plain bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/octet-stream":
        raise Refused(
            415, "media type", "the body must be plain bytes; send 'Content-Type: application/octet-stream'"
        )


def must_be_known(request: Request, known: Sequence[str]) -> None:
    """Refuse parameters that would be passed over: who wrote 'tennant=a' would take the answer for that of 'a'."""
    for name in request.query_params:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "there are none here"
            raise Refused(400, "request", f"{name[:80]!a} is no parameter of this request; {there}")


def read_json(body: bytes) -> Any:
    """Values of a JSON text without repeated keys, NaN, infinities, deep nesting or text that cannot be stored."""
    try:
        values = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError:
        _refuse("not UTF-8")
    except RecursionError:
        _refuse("nested too deeply")
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg} at line {error.lineno}, column {error.colno}")
    except ValueError:  # Python's limit on digits
        _refuse("a number has too many digits")
    _check(values)
    return values


def _refuse(why: str) -> NoReturn:
    raise Refused(400, "json", f"the body is not valid JSON: {why}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        _refuse(f"{twice[:80]!a} is given more than once")
    return values


def _no_constant(name: str) -> NoReturn:
    _refuse(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        _refuse(f"{text[:40]} is too large a number")
    return value


def _check(values: Any) -> None:
    """Level by level, so that no depth can exhaust the stack."""
    level = [values]
    for _ in range(_DEEPEST):
        for value in level:
            _check_text(value)
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    _refuse(f"nested more than {_DEEPEST} levels deep")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []


def _check_text(value: Any) -> None:
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        _refuse("half a character (a lone surrogate) in a text")
    if isinstance(value, str) and "\0" in value:
        _refuse("a NUL character in a text")
