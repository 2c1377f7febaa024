"""Limits what one user or tenant may pile up; defaults are far above honest use and far below what hurts others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Caps that ``elastane up`` can set."""

    tokens_per_user: int = 50
    """Tokens that are good at the same time."""
    pending_per_tenant: int = 10_000
    """Jobs that have not ended and hold nothing."""
