"""Verbs with verbs of their own: ``elastane policy`` means ``elastane policy show``."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class _Group(TyperGroup):
    """Puts the usual verb in where there is none."""

    usual = ""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Complete what was typed."""
        if not args or (args[0].startswith("-") and args[0] != "--help"):
            args = [self.usual, *args]
        return super().parse_args(ctx, args)


class ShowByDefault(_Group):
    """Without a verb: ``show``."""

    usual = "show"


class ListByDefault(_Group):
    """Without a verb: ``list``."""

    usual = "list"


def group(cls: type[TyperGroup], help: str) -> typer.Typer:
    """A group of verbs."""
    return typer.Typer(cls=cls, help=help, rich_markup_mode=None)
