"""Policies as users write them: ``pollux`` or ``pollux(search=genetic,p=-1)``."""

from __future__ import annotations

from elastane.errors import ElastaneError


class OptionError(ElastaneError):
    """A policy option that is unknown or has a value it cannot have."""
