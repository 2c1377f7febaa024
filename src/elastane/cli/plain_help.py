"""Makes help readable: ``--nodes NUMBER`` and ``JOB…`` where Typer would print the types and brackets of Python.

Typer has no setting for that; what it prints passes through a formatter, which is the one place to put it plainly.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_WORDS = {
    "str": "TEXT",
    "int": "NUMBER",
    "float": "NUMBER",
    "path": "PATH",
    "file": "PATH",
    "directory": "PATH",
}
_TYPE = re.compile(r" <([^<>]+)>")
_NAME = re.compile(r"[a-z_]+(\.\.\.)?")


def make_plain(context: type[Any]) -> None:
    """Makes all help of these contexts plain, by replacing their formatter class."""
    usual = context.formatter_class
    if not getattr(usual, "plain", False):
        context.formatter_class = type("PlainFormatter", (_Plain, usual), {})


class _Plain:
    """A mixin that goes before Typer's formatter and rewrites what is passed to it."""

    plain = True

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """Writes the line of usage with plain arguments."""
        super().write_usage(prog, usage(args), prefix)  # type: ignore[misc]

    def write_dl(self, rows: Sequence[tuple[str, str]], *more: Any, **named: Any) -> None:
        """Writes a list of arguments, options or verbs with plain names."""
        super().write_dl([(entry(name), words) for name, words in rows], *more, **named)  # type: ignore[misc]


def usage(pieces: str) -> str:
    """Rewrites the arguments of a verb in its line of usage.

    >>> usage("[OPTIONS] {JOB…}..."), usage("{script} [arguments]...")
    ('[OPTIONS] JOB…', 'SCRIPT [ARGUMENTS]...')
    """
    words = [re.sub(r"^\{(.+)\}(?=$|\.\.\.$)", r"\1", word) for word in pieces.split(" ")]
    return " ".join(re.sub(r"…(\]?)\.\.\.$", r"…\1", _shouted(word)) for word in words)


def entry(name: str) -> str:
    """Rewrites an argument or an option in the list below the line of usage.

    >>> entry("JOB… <list[str]>"), entry("-b, --batch <int range>"), entry("workers <int range>")
    ('JOB…', '-b, --batch NUMBER', 'WORKERS')
    """
    typed = _TYPE.search(name)
    if typed is None:
        return name
    if not name.startswith("-"):
        return _shouted(name[: typed.start()]).removesuffix("...")
    kind = typed[1].removeprefix("list[").removesuffix("]").removesuffix(" range").lower()
    return f"{name[: typed.start()]} {_WORDS.get(kind, kind)}{name[typed.end() :]}"


def _shouted(word: str) -> str:
    """Writes the default name of an argument in capitals; a name that was set by hand stays as it is."""
    bare = word.removeprefix("[").removesuffix("...").removesuffix("]")
    return word.upper() if _NAME.fullmatch(bare) else word
