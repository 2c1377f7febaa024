"""Names what lies in a ``UrlCheckpointStore``, by generation and order: manifests, claims of generations.

| name | what it is |
|---|---|
| ``checkpoint-GENERATION-SERIAL-UNIQUE.manifest`` | a checkpoint, if all parts that it names are whole |
| ``checkpoint-GENERATION-SERIAL-UNIQUE.tree``, ``….tensors-NNNN`` | its parts |
| ``claim-GENERATION-UNIQUE`` | a generation began to train here, from one of the checkpoints that it names |

All of it is text that anybody may have written: numbers, lengths and names are within bounds, or it is passed over.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from elastane.train.errors import TrainError

FORMAT = 2
"""Version of the layout, counted on from that of ``checkpoint``; another one is not read."""
LATEST_GENERATION = 2**52
MOST_TEXT = 1 << 20
"""Bytes of a manifest or claim."""
MOST_PARTS = 9999
MOST_KNOWN = 64
"""Checkpoints that a claim names."""

_NUMBER = r"(\d{16})"
_UNIQUE = r"([0-9a-f]{32})"
_CHECKPOINT = re.compile(rf"checkpoint-{_NUMBER}-{_NUMBER}-{_UNIQUE}\.(manifest|tree|tensors-\d{{4}})")
_CLAIM = re.compile(rf"claim-{_NUMBER}-{_UNIQUE}")

Whole = Annotated[int, Meta(ge=0, le=2**53)]
Name = Annotated[str, Meta(max_length=120)]
Values = TypeVar("Values", bound=Struct)


@dataclass(frozen=True, slots=True, order=True)
class Stamp:
    """One writing of a checkpoint; later ones are greater."""

    generation: int
    serial: int
    unique: str

    def part(self, kind: str) -> str:
        """The name of its manifest or of a part."""
        return f"checkpoint-{self.generation:016d}-{self.serial:016d}-{self.unique}.{kind}"

    @property
    def manifest(self) -> str:
        """The name of its manifest."""
        return self.part("manifest")


@dataclass(frozen=True, slots=True, order=True)
class ClaimName:
    """One claim; of the same generation there should be one."""

    generation: int
    unique: str

    def __str__(self) -> str:
        return f"claim-{self.generation:016d}-{self.unique}"


class Part(Struct, frozen=True):
    """A part as it was written."""

    name: Name
    bytes: Whole
    crc32: Annotated[int, Meta(ge=0, lt=2**32)]


class Manifest(Struct, frozen=True):
    """A checkpoint and its parts."""

    format: int
    step: Annotated[int, Meta(ge=0, lt=10**12)]
    generation: Whole
    serial: Whole
    info: dict[str, Any]
    parts: Annotated[list[Part], Meta(max_length=MOST_PARTS + 1)]


class Claim(Struct, frozen=True):
    """What a generation found when it began; None while it is still looking."""

    known: Annotated[list[Name], Meta(max_length=MOST_KNOWN)] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """What was there at some moment."""

    sizes: Mapping[str, int]
    stamps: tuple[Stamp, ...]
    """Of the manifests."""
    parts: Mapping[str, Stamp]
    """Names of all that belongs to a checkpoint, manifests included."""
    claims: tuple[ClaimName, ...]

    @classmethod
    def of(cls, sizes: Mapping[str, int]) -> Listing:
        """Sort names by what they mean; others are none of ours."""
        parts = {name: stamp for name in sizes if (stamp := _stamp_of(name)) is not None}
        stamps = sorted(stamp for name, stamp in parts.items() if name.endswith(".manifest"))
        claims = sorted(claim for name in sizes if (claim := _claim_of(name)) is not None)
        return cls(sizes, tuple(stamps), parts, tuple(claims))

    @property
    def highest(self) -> int:
        """The latest generation that has written anything."""
        return max((self.claimed, *(stamp.generation for stamp in self.parts.values())))

    @property
    def established(self) -> int:
        """The latest generation that has claimed the place or completed a checkpoint."""
        return max((self.claimed, *(stamp.generation for stamp in self.stamps)))

    @property
    def claimed(self) -> int:
        """The latest generation that has claimed the place."""
        return max((each.generation for each in self.claims), default=0)


def _stamp_of(name: str) -> Stamp | None:
    match = _CHECKPOINT.fullmatch(name)
    if match is None or int(match[1]) > LATEST_GENERATION:
        return None
    return Stamp(int(match[1]), int(match[2]), match[3])


def _claim_of(name: str) -> ClaimName | None:
    match = _CLAIM.fullmatch(name)
    return ClaimName(int(match[1]), match[2]) if match and int(match[1]) <= LATEST_GENERATION else None


def sealed(values: Struct) -> bytes:
    """One line of JSON, and one with its checksum."""
    body = msgspec.json.encode(values)
    return body + b"\n%d\n" % zlib.crc32(body)


def unsealed(text: bytes, kind: type[Values]) -> Values:
    """The inverse of ``sealed``.

    Raises:
        TrainError: it is torn, changed, or something else.
    """
    body, _, checksum = text.partition(b"\n")
    if checksum != b"%d\n" % zlib.crc32(body):
        raise TrainError("its checksum does not fit")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise TrainError(f"it is none of ours: {error}") from None


def check(manifest: Manifest, stamp: Stamp, most_bytes: int) -> None:
    """Raise TrainError unless the manifest is that of this writing, names its own parts, and fits into memory."""
    if manifest.format != FORMAT:
        raise TrainError(f"its format is {manifest.format}, not {FORMAT}")
    if (manifest.generation, manifest.serial) != (stamp.generation, stamp.serial):
        raise TrainError("it is another one's manifest")
    wanted = part_names(stamp, len(manifest.parts) - 1)
    if [part.name for part in manifest.parts] != wanted:
        raise TrainError("its parts are not its own")
    total = sum(part.bytes for part in manifest.parts)
    if total > most_bytes:
        raise TrainError(f"it has {total:,} bytes, more than this machine has memory")


def part_names(stamp: Stamp, tensors: int) -> list[str]:
    """Of a checkpoint whose tensors are in so many parts, in the order of its manifest."""
    return [stamp.part("tree"), *(stamp.part(f"tensors-{number:04d}") for number in range(tensors))]


def whole(manifest: Manifest, sizes: Mapping[str, int]) -> bool:
    """Whether all parts are there with their sizes."""
    return all(sizes.get(part.name) == part.bytes for part in manifest.parts)


def part_of(name: str, data: bytes) -> Part:
    """The entry of a part in the manifest."""
    return Part(name, len(data), zlib.crc32(data))


def readable(stamps: Iterable[Stamp], claim: tuple[int, frozenset[str]] | None) -> list[Stamp]:
    """Those that may be gone on from, newest first: of the latest claim or later, or among what it found."""
    since, known = claim if claim is not None else (0, frozenset())
    return sorted((s for s in stamps if s.generation >= since or s.manifest in known), reverse=True)
