"""Completes error messages about an unknown name of a workload with what could be meant."""

from __future__ import annotations

from collections.abc import Iterable

from elastane.suggest import did_you_mean


def nearest(name: str, known: Iterable[str]) -> str:
    """Half a sentence for an error: the nearest known name or, as the lists here are short, all of them."""
    names = sorted(known)
    return did_you_mean(name, names) or f"; known: {', '.join(names)}"
