"""Batch limits differ between accelerator types: where there is more memory, fewer passes make the same batch."""

from __future__ import annotations

import numpy as np

from elastane.codec import decoded, encoded
from elastane.models.goodput import BatchLimits, GoodputModel, PerGpuMax, goodput_tables
from elastane.models.throughput import ThroughputParams

THETA = ThroughputParams(0.1, 0.001, 0.01, 0.001, 0.01, 0.001, 1.0)
LIMITS = BatchLimits(64, 512, 8, 64, per_gpu_max_on=(PerGpuMax("a100", 256),))
MODEL = GoodputModel({"t4": THETA, "a100": THETA}, 1e6, LIMITS, 4)


def test_a_type_with_more_memory_takes_a_batch_in_one_pass() -> None:
    small, large = MODEL.best_batch(1, 2, "t4"), MODEL.best_batch(1, 2, "a100")
    assert small is not None
    assert large is not None
    assert small.per_gpu <= 64
    assert (large.per_gpu, large.accumulation) == (256, 0)


def test_tables_and_single_answers_agree_on_every_type() -> None:
    sizes = np.array([1, 2, 4])
    for kind in ("t4", "a100", "unknown"):
        table = goodput_tables([MODEL], np.ones_like(sizes), sizes, kind).rate[0]
        assert np.allclose(table, [MODEL.best_of(1, int(size), kind)[0] for size in sizes])
    assert MODEL.best_of(1, 2, "a100")[0] > MODEL.best_of(1, 2, "t4")[0] == MODEL.best_of(1, 2, "unknown")[0]


def test_limits_by_type_are_written_down_and_read_back() -> None:
    assert decoded(BatchLimits, encoded(LIMITS)) == LIMITS
