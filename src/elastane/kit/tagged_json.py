"""Tagged messages between a process of ours and its child: frozen types as lines of JSON, with their ``type``.

Both ends are the same code at the same moment, so what does not fit is a mistake of ours and raises.  Lines that a
stranger or another version may write are read by ``train.coordinator.wire``.
"""

from __future__ import annotations

import json
from typing import Generic, TypeVar

import msgspec


class Tagged(msgspec.Struct, frozen=True):
    """Base of the types; the tag of each is the ``type`` of its JSON object."""


Said = TypeVar("Said", bound=Tagged)


def line_of(message: Tagged) -> str:
    """One line, with its end.  Values within a message are the standard library's JSON: NaN may be among them.

    >>> class Wave(Tagged, frozen=True, tag="wave"):
    ...     hands: int
    >>> line_of(Wave(2)).rstrip()
    '{"type": "wave", "hands": 2}'
    """
    return json.dumps({"type": message.__struct_config__.tag, **msgspec.structs.asdict(message)}) + "\n"


class Lines(Generic[Said]):
    """The messages that one side may send.

    >>> class Wave(Tagged, frozen=True, tag="wave"):
    ...     hands: int
    >>> Lines(Wave).read('{"type": "wave", "hands": 1}')
    Wave(hands=1)
    """

    def __init__(self, *types: type[Said]) -> None:
        self._types = {kind.__struct_config__.tag: kind for kind in types}

    def read(self, line: str | bytes) -> Said:
        """The message of a line.

        Raises:
            ValueError: it is none of them.
        """
        document = json.loads(line)
        kind = self._types.get(document.get("type")) if isinstance(document, dict) else None
        if kind is None:
            raise ValueError(f"no such message: {line[:80]!r}")
        return msgspec.convert(document, kind)
