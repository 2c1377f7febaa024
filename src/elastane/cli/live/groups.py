"""Groups of verbs with a default one: ``elastane policy`` means ``elastane policy show``."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class _Group(TyperGroup):
    """Inserts the default verb where none was typed."""

    usual = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default verb before the arguments are parsed."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = [self.usual, *args]
        return super().parse_args(ctx, args)


class ShowByDefault(_Group):
    """A group whose default verb is ``show``."""

    usual = "show"


class ListByDefault(_Group):
    """A group whose default verb is ``list``."""

    usual = "list"


def group(cls: type[TyperGroup], help: str) -> typer.Typer:
    """Makes an empty group of verbs."""
    return typer.Typer(cls=cls, help=help, rich_markup_mode=None)
