"""Independent random streams from one seed."""

from __future__ import annotations

import numpy as np

from elastane.errors import ElastaneError


def streams(seed: int, count: int) -> list[np.random.Generator]:
    """``count`` generators; one more draw from one of them changes nothing in the others."""
    if seed < 0:
        raise ElastaneError(f"a seed is a whole number from zero up, not {seed}")
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]
