"""Memory that was freed once is not fetched from the kernel again."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Eight megabytes, written and freed fifty times: two thousand page faults each time, or only the first.
PROGRAM = """
import resource
from elastane.train.reduce.malloc_tuning import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        first, second = b"x" * (4 << 20), b"y" * (4 << 20)
        del first, second
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(keep_freed_memory(), faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_freed_memory_is_used_again_without_page_faults() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    kept, faults = run.stdout.split()
    if kept != "True":
        pytest.skip("another C library")
    assert int(faults) < 10_000
