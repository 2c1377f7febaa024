"""Random numbers of a sample: by (seed, pass, index), and nothing left behind."""

from __future__ import annotations

import random
from contextlib import AbstractContextManager

import numpy as np
import pytest
import torch

from elastane.train.data import sample_generator
from elastane.train.data.rng import capture, preserved, restore, seeded
from elastane.train.data.sample_rng import sample_rng
from elastane.train.errors import TrainError


def draw() -> tuple[float, float, float]:
    return torch.rand(1).item(), random.random(), float(np.random.randn())


def own(seed: int, pass_index: int, index: int) -> float:
    with sample_rng(seed, pass_index) as begin:
        begin(index)
        return torch.rand(1, generator=sample_generator()).item()


def test_a_sample_has_one_stream_by_seed_pass_and_index() -> None:
    assert own(1, 2, 3) == own(1, 2, 3)
    assert len({own(1, 2, 3), own(0, 2, 3), own(1, 0, 3), own(1, 2, 0), own(3, 2, 1)}) == 5


def test_repeated_calls_for_one_sample_continue_its_stream() -> None:
    with sample_rng(0, 0) as begin:
        begin(4)
        parts = [torch.rand(1, generator=sample_generator()).item() for _ in range(2)]
        begin(4)
        together = torch.rand(2, generator=sample_generator()).tolist()
    assert parts == together


def test_a_batch_read_says_which_sample_it_means() -> None:
    with sample_rng(1, 2):
        assert torch.rand(1, generator=sample_generator(3)).item() == own(1, 2, 3)
        with pytest.raises(TrainError, match=r"sample_generator\(index\) inside __getitems__"):
            sample_generator()


def test_outside_a_data_set_there_is_no_sample() -> None:
    with sample_rng(0, 0):
        pass
    with pytest.raises(TrainError, match="inside __getitem__"):
        sample_generator()


def test_a_data_set_that_reads_another_one_gets_its_own_sample_back() -> None:
    with sample_rng(1, 2) as begin:
        begin(3)
        own(9, 9, 9)
        assert torch.rand(1, generator=sample_generator()).item() == own(1, 2, 3)


def test_global_generators_are_left_alone_unless_asked() -> None:
    restore_point = capture()
    expected = draw()
    restore(restore_point)
    own(1, 2, 3)
    assert draw() == expected


def test_seeded_globals_repeat_per_sample_and_are_put_back() -> None:
    def sample(index: int) -> tuple[float, float, float]:
        with sample_rng(1, 2, seed_globals=True) as begin:
            begin(index)
            return draw()

    before = capture()
    expected = draw()
    restore(before)
    assert sample(3) == sample(3)
    assert sample(3) != sample(4)
    assert draw() == expected


def fail_after_drawing(context: AbstractContextManager[None]) -> None:
    with context:
        draw()
        raise KeyError


@pytest.mark.parametrize("context", [preserved(), seeded(5)], ids=["preserved", "seeded"])
def test_generators_are_put_back_after_an_error(context: AbstractContextManager[None]) -> None:
    before = capture()
    expected = draw()
    restore(before)
    with pytest.raises(KeyError):
        fail_after_drawing(context)
    assert draw() == expected
