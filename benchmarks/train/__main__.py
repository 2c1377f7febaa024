"""``make bench-train``: all figures of the training library, or one group of them with ``--only``."""

from __future__ import annotations

from benchmarks.harness import Suite, run
from benchmarks.train.accuracy import accuracy
from benchmarks.train.against_ddp import ddp
from benchmarks.train.devices import devices
from benchmarks.train.joining import snapshot, warmup
from benchmarks.train.kills import kills
from benchmarks.train.leaks import leaks
from benchmarks.train.measuring import measuring
from benchmarks.train.ordered import consistent
from benchmarks.train.pauses import pauses

SUITE = Suite(
    "train",
    __doc__,
    {
        "pauses": pauses,
        "snapshot": snapshot,
        "warmup": warmup,
        "kills": kills,
        "leaks": leaks,
        "accuracy": accuracy,
        "ddp": ddp,
        "consistent": consistent,
        "measuring": measuring,
        "devices": devices,
    },
)

if __name__ == "__main__":
    run(SUITE)
