"""Consistent mode: the same bits for any number of workers; and proof that this is not a matter of course."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from train.running import SCRIPTS


def hashes(variant: str) -> dict[str, set[str]]:
    """The hashes of each configuration, over all numbers of workers and all replicas."""
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / "matrix.py"), variant],
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found: dict[str, set[str]] = {}
    for replica in json.loads(done.stdout):
        for configuration, by_world in replica.items():
            found.setdefault(configuration, set()).update(by_world.values())
    return found


@pytest.mark.slow
def test_three_models_and_two_optimizers_give_the_same_bits_for_1_2_3_4_and_8_workers() -> None:
    found = hashes("consistent")
    assert len(found) == 6
    assert {configuration: len(distinct) for configuration, distinct in found.items()} == dict.fromkeys(
        found, 1
    )
    assert len(set.union(*found.values())) == 6


@pytest.mark.parametrize("variant", ["fixed", "summed", "unseeded"])
def test_without_the_fixed_order_or_the_own_random_numbers_the_bits_differ(variant: str) -> None:
    found = hashes(variant)
    assert all(len(distinct) > 1 for distinct in found.values()), found
