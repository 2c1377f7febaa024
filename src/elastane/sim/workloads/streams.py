"""Independent random streams from one seed."""

from __future__ import annotations

import numpy as np

from elastane.errors import ElastaneError


def streams(seed: int, count: int, salt: int | None = None) -> list[np.random.Generator]:
    """``count`` generators; one more draw from one of them changes nothing in the others.

    Users with another ``salt`` draw independently from the same seed.
    """
    if seed < 0:
        raise ElastaneError(f"a seed is a whole number from zero up, not {seed}")
    root = np.random.SeedSequence(seed if salt is None else [seed, salt])
    return [np.random.default_rng(child) for child in root.spawn(count)]
