"""Damages files: bytes, lines, numbers, fields, nesting, encodings, packing; always near something valid."""

from __future__ import annotations

import gzip
import json
import random
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

NUMBERS = (
    "nan", "inf", "-inf", "1e308", "-1e308", "1e999", "1e-320", "-1", "0", "-0.0", "0.5", "9" * 5000, "-" + "9" * 5000,
    str(2**31), str(2**63), str(10**30), "1_000", "0x10", "1e", "٣", "", "true", "null", "1,5", '"7"', "[]", "{}",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 10**30, 1e308, -1e308, 1e-320, 0.5, float("nan"), float("inf"), "", " ", "x" * 5000,
    "a\nb", "a\0b", "\x1b[31mred", "\u202eabc", "é", "\ud800", [], {}, [[]], [None], {"": ""}, "../../etc/passwd",
    "$(id)", "1e999",
)  # fmt: skip
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_SCRAPS = (b"\0", b"\r", b"\n", b"\r\n", b"\t", b",", b'"', b"'", b"{", b"]", b":", b"#", b"\xff", b"\xed\xa0\x80",
           b"\x1b[2J", b"&a ", b"*a", b"!!python/name:os.system", b"%", b"\xe2\x80\xae")  # fmt: skip
_LARGE = 1 << 20

Mutation = Callable[[random.Random, bytes], bytes]


def mutated(chance: random.Random, data: bytes) -> tuple[bytes, str]:
    """The data with one to three mutations, and their names."""
    names = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        name = chance.choices(list(MUTATIONS), [weight for weight, _ in MUTATIONS.values()])[0]
        data = MUTATIONS[name][1](chance, data)
        names.append(name)
        if name in LAST:  # what follows would only damage the packing
            break
    return data, "+".join(names)


def _bytes(chance: random.Random, data: bytes) -> bytes:
    spot = chance.randrange(len(data) + 1)
    cut = spot + chance.choice((0, 0, 1, 3, 40))
    return data[:spot] + chance.choice((b"", bytes([chance.randrange(256)]), *_SCRAPS)) + data[cut:]


def _truncated(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _lines(chance: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    spot = chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            del lines[spot]
        case 1:
            lines.insert(spot, lines[spot])
        case 2:
            chance.shuffle(lines)
        case 3:
            lines[spot] += lines.pop(chance.randrange(len(lines))) if len(lines) > spot + 1 else b""
        case 4:
            lines.insert(spot, b"")
        case _:
            lines = lines[:1] + lines[1:] * 50
    return b"\n".join(lines)


def _long_line(chance: random.Random, data: bytes) -> bytes:
    spot = chance.randrange(len(data) + 1)
    return data[:spot] + chance.choice((b"x", b"9", b"[", b" ", b",")) * (2 * _LARGE) + data[spot:]


def _number(chance: random.Random, data: bytes) -> bytes:
    found = list(_NUMBER.finditer(data))
    if not found:
        return data
    start, end = chance.choice(found).span()
    return data[:start] + chance.choice(NUMBERS).encode() + data[end:]


def _fields(chance: random.Random, data: bytes) -> bytes:
    """Fields of JSON documents; columns or cells of anything else."""
    text = data.decode("utf-8", "replace")
    document = _parsed(text)
    if document is not None:
        return _written(_spoiled(chance, document), chance)
    lines = text.split("\n")
    spot = chance.randrange(len(lines))
    inner = _parsed(lines[spot])
    if inner is not None:
        lines[spot] = _written(_spoiled(chance, inner), chance).decode("utf-8", "surrogatepass")
    else:
        lines = _cells(chance, lines, spot)
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _cells(chance: random.Random, lines: list[str], spot: int) -> list[str]:
    """A cell of one line, or a column of the first, goes, comes twice or gets another content."""
    spot = chance.choice((0, spot))
    mark = next((each for each in ("\t", ",", ": ", "=") if each in lines[spot]), ",")
    cells = lines[spot].split(mark)
    at = chance.randrange(len(cells))
    match chance.randrange(4):
        case 0:
            del cells[at]
        case 1:
            cells.insert(at, cells[at])
        case 2:
            cells[at] = cells[at][::-1] if chance.random() < 0.5 else f"{cells[at]}s"
        case _:
            cells[at] = str(chance.choice((*VALUES, *NUMBERS)))
    lines[spot] = mark.join(cells)
    return lines


def _nested(chance: random.Random, data: bytes) -> bytes:
    depth = chance.choice((50, 1000, 100_000))
    spot = chance.randrange(len(data) + 1)
    opening = chance.choice((b"[", b'{"a":', b"- ", b"(", b'"'))
    return data[:spot] + opening * depth + data[spot:]


def _recoded(chance: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    match chance.randrange(7):
        case 0:
            return text.encode("utf-16")
        case 1:
            return "é".join(text.partition("a")[::2]).encode("latin-1", "replace")
        case 2:
            return b"\xef\xbb\xbf" + data
        case 3:
            return data.replace(b"\n", b"\r\n")
        case 4:
            return data.replace(b"\n", b"\r")
        case 5:
            return text.encode("utf-32-be")
        case _:
            return data.replace(b"\n", b"\n\0", chance.randint(1, 3))


def _packed(chance: random.Random, data: bytes) -> bytes:
    packed = bytearray(gzip.compress(data))
    match chance.randrange(5):
        case 0:
            pass
        case 1:
            del packed[chance.randrange(len(packed)) :]
        case 2:
            packed[chance.randrange(len(packed))] ^= 1 << chance.randrange(8)
        case 3:
            packed += b"trailing"
        case _:
            packed = packed[:2]
    return bytes(packed)


def _bomb(chance: random.Random, data: bytes) -> bytes:
    """Much more than a gigabyte, once it is unpacked: gzip members behind each other are one file."""
    filling = chance.choice((b"\0", b"0\n", b"9", b"\n", b"last line"))
    if filling == b"last line":
        filling = data.rstrip(b"\n").rpartition(b"\n")[2] + b"\n"
    return gzip.compress(data) + _members(filling) * 100


@cache
def _members(filling: bytes) -> bytes:
    return gzip.compress(filling * (16 * _LARGE // len(filling)))


def _merge_keys(chance: random.Random, data: bytes) -> bytes:
    """YAML whose merge keys or aliases multiply by ten on each of several levels."""
    body = chance.choice(("<<: [{}]", "k: [{}]"))
    levels = ["a0: &a0 {x: 1, y: 2}"]
    levels += [f"a{i}: &a{i} {{{body.format(', '.join([f'*a{i - 1}'] * 10))}}}" for i in range(1, 10)]
    return ("\n".join(levels) + "\n").encode() + data


def _empty(chance: random.Random, _data: bytes) -> bytes:
    return chance.choice((b"", b"\n", b" \n\n", b"\0" * 100, b"{}", b"[]", b"null", b"# nothing\n"))


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict | list) and document else None


def _written(document: object, chance: random.Random) -> bytes:
    text = json.dumps(document, indent=chance.choice((None, 1)), ensure_ascii=chance.random() < 0.5)
    if chance.random() < 0.1:  # a key twice
        text = re.sub(r'("\w+": [^,{}\[\]]+),', r"\1, \1,", text, count=1)
    return text.encode("utf-8", "surrogatepass")


def _spoiled(chance: random.Random, value: Any) -> Any:
    """One part of a document, at any depth, gone or other than it was."""
    if isinstance(value, list) and value and chance.random() < 0.9:
        spot = chance.randrange(len(value))
        return [_spoiled(chance, each) if i == spot else each for i, each in enumerate(value)]
    if not isinstance(value, Mapping) or not value or chance.random() < 0.05:
        return chance.choice(VALUES)
    key = chance.choice(list(value))
    match chance.randrange(7):
        case 0:
            return {name: each for name, each in value.items() if name != key}
        case 1:
            return {(f"{name}s" if name == key else name): each for name, each in value.items()}
        case 2:
            return {**value, chance.choice(("x", "__class__", "", "é")): 1}
        case _:
            return {**value, key: _spoiled(chance, value[key])}


MUTATIONS: Mapping[str, tuple[float, Mutation]] = {
    "bytes": (20, _bytes),
    "truncated": (4, _truncated),
    "lines": (12, _lines),
    "long line": (2, _long_line),
    "number": (24, _number),
    "fields": (24, _fields),
    "nested": (3, _nested),
    "encoding": (6, _recoded),
    "gzip": (5, _packed),
    "bomb": (0.5, _bomb),
    "merge keys": (1, _merge_keys),
    "empty": (1, _empty),
}
"""By name, with how often it comes."""
LAST = frozenset({"gzip", "bomb"})
