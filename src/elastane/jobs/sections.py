"""Finds the section types around a place in a spec, so that messages can name the fields known there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Models = Sequence[type[BaseModel]]

TAG = "shape"
"""The field that tells the alternatives of one section apart."""


@dataclass(frozen=True)
class Place:
    """A place as its author knows it, the section types that hold it, and those that may stand there."""

    parts: tuple[str, ...]
    holders: Models
    inside: Models

    @property
    def path(self) -> str:
        """``workers.min``; empty for the whole spec."""
        return ".".join(self.parts)

    @property
    def known(self) -> list[str]:
        """Names of the fields that could have stood here."""
        return [name for name, _ in _fields(self.holders)]

    @property
    def description(self) -> str:
        """What the field at this place is for."""
        return next(
            (info.description or "" for name, info in _fields(self.holders) if name == self.parts[-1]), ""
        )

    @property
    def tags(self) -> list[str]:
        """Values of the tag field that choose among the alternatives here."""
        return [tag for tag in map(_tag, self.inside) if tag]


def locate(loc: Sequence[str | int], model: type[BaseModel]) -> Place:
    """Follows a pydantic location, leaving out the tags it names that nobody wrote."""
    parts: list[str] = []
    holders: Models = []
    inside: Models = [model]
    for part in loc:
        chosen = [section for section in inside if _tag(section) == part]
        if chosen and len(inside) > 1:
            inside = chosen
        elif part != "[key]":  # pydantic's mark for "the key itself, not its value"
            parts.append(str(part))
            holders, inside = inside, _sections_of(part, inside)
    return Place(tuple(parts), holders, inside)


def _fields(sections: Models) -> Iterator[tuple[str, FieldInfo]]:
    for section in sections:
        for name, info in section.model_fields.items():
            yield info.alias or name, info


def _sections_of(name: str | int, holders: Models) -> Models:
    return [model for field, info in _fields(holders) if field == name for model in _models_in(info.annotation)]


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def _tag(section: type[BaseModel]) -> str | None:
    info = section.model_fields.get(TAG)
    return str(get_args(info.annotation)[0]) if info and get_args(info.annotation) else None
