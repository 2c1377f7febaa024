"""Streams: positions mean the same on every worker, a block can be done again, the end is found."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import IterableDataset

from elastane.train.data import SeekableStream, sample_generator
from elastane.train.data.stream import StreamSource
from elastane.train.errors import TrainError

LENGTH = 50


class Lines(IterableDataset[int]):
    """Counts how often it was opened and how many samples were read."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length
        self.epoch = 0
        self.opened = 0
        self.read = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.opened += 1
        for position in range(self.length):
            self.read += 1
            yield 1000 * self.epoch + position


class Seekable:
    """The same samples from anywhere; no length."""

    def __init__(self, length: int = LENGTH) -> None:
        self.length = length
        self.opened: list[int] = []
        self.read = 0

    def iter_from(self, pass_index: int, position: int) -> Iterator[int]:
        self.opened.append(position)
        for each in range(position, self.length):
            self.read += 1
            yield 1000 * pass_index + each


class Sized(Seekable):
    def __len__(self) -> int:
        return LENGTH


KINDS = [Lines, Seekable, Sized]
spans = st.tuples(st.integers(0, 2), st.integers(0, LENGTH - 1), st.integers(1, 20))


@pytest.mark.parametrize("kind", KINDS)
@given(steps=st.lists(spans, max_size=15), look_back=st.sampled_from([0, 7, 100]))
def test_any_span_can_be_fetched_in_any_order(
    kind: Any, steps: list[tuple[int, int, int]], look_back: int
) -> None:
    source = StreamSource(kind(), list, look_back=look_back)
    for pass_index, start, count in steps:
        source.open(pass_index)
        found = source.available(start, count)
        assert found == min(count, LENGTH - start)
        first = 1000 * pass_index + start
        assert source.fetch(start, found) == list(range(first, first + found))


@pytest.mark.parametrize("kind", KINDS)
@given(length=st.integers(1, 70), block=st.integers(1, 30))
def test_the_end_of_a_pass_is_found_exactly(kind: Any, length: int, block: int) -> None:
    source = StreamSource(kind(LENGTH if kind is Sized else length), list)
    total = 0
    while found := source.available(total, block):
        total += found
    assert total == (LENGTH if kind is Sized else length)
    assert source.available(total + 5, block) == 0


@pytest.mark.parametrize(("kind", "length"), [(Lines, None), (Seekable, None), (Sized, LENGTH)])
def test_a_length_is_claimed_only_where_it_is_certain(kind: Any, length: int | None) -> None:
    assert StreamSource(kind()).length == length


def test_samples_are_collated_as_torch_does() -> None:
    found = StreamSource([(torch.ones(2), i) for i in range(4)]).fetch(1, 2)
    assert torch.equal(found[0], torch.ones(2, 2))
    assert found[1].tolist() == [1, 2]


def test_a_block_is_done_again_by_other_workers_without_reading_again() -> None:
    lines = Lines()
    source = StreamSource(lines, list)
    for block in range(0, 40, 10):
        assert source.available(block, 10) == 10
        source.fetch(block + 5, 5)  # with two workers
        source.fetch(block, 10)  # the other one died
        if block:
            source.fetch(block - 10, 10)  # a survivor was one step behind
    assert (lines.opened, lines.read) == (1, 40)


def test_memory_is_bounded_by_the_blocks_asked_for() -> None:
    source = StreamSource(Lines(1000), list)
    for start in range(0, 1000, 10):
        source.available(start, 10)
    assert len(source._stream._kept) == 20


def test_something_older_is_found_by_starting_over() -> None:
    lines = Lines()
    source = StreamSource(lines, list)
    source.fetch(40, 5)
    assert source.fetch(3, 4) == [3, 4, 5, 6]
    assert (lines.opened, lines.read) == (2, 45 + 7)


def test_a_user_may_ask_for_a_longer_memory() -> None:
    lines = Lines()
    source = StreamSource(lines, list, look_back=45)
    source.fetch(40, 5)
    source.fetch(0, 5)
    assert lines.opened == 1


def test_going_back_to_the_open_pass_keeps_what_was_read() -> None:
    lines = Lines()
    source = StreamSource(lines, list)
    source.fetch(0, 5)
    source.open(0)
    source.fetch(0, 5)
    assert lines.opened == 1


def test_a_seekable_stream_is_read_only_where_it_is_needed() -> None:
    stream = Sized()
    source = StreamSource(stream, list)
    for start in (5, 15, 25, 30):
        assert source.available(start, 5) == 5
        source.fetch(start, 5)
    assert stream.read == 20
    assert stream.opened == [5, 15, 25]


def test_the_end_of_a_seekable_stream_costs_few_samples() -> None:
    stream = Seekable(1000)
    source = StreamSource(stream, list)
    assert source.available(0, 1024) == 1000
    assert stream.read <= 11
    before = stream.read
    assert source.available(900, 200) == 100
    assert stream.read == before


@pytest.mark.parametrize("lengths", [(10, 20, 5), (20, 3, 20)])
def test_passes_of_a_stream_may_have_different_lengths(lengths: tuple[int, ...]) -> None:
    class Varying(Seekable):
        def iter_from(self, pass_index: int, position: int) -> Iterator[int]:
            return iter(range(position, lengths[pass_index]))

    source = StreamSource(Varying(), list)
    for pass_index, length in enumerate(lengths):
        source.open(pass_index)
        assert source.available(0, 15) == min(length, 15)
        assert source.available(2, 100) == length - 2


@pytest.mark.parametrize("kind", [Seekable, Sized])
def test_a_stream_that_begins_anywhere_is_recognised(kind: Any) -> None:
    assert isinstance(kind(), SeekableStream)
    assert not isinstance(Lines(), SeekableStream)


class Shuffled:
    """Shuffles and augments as unmodified code does: by the global generators."""

    def __iter__(self) -> Iterator[float]:
        order = list(range(30))
        random.shuffle(order)
        for each in order:
            yield each + 0.5 * torch.rand(1).item() + 0.4 * float(np.random.rand())


def test_a_stream_that_shuffles_itself_is_the_same_on_every_worker() -> None:
    early, late = StreamSource(Shuffled(), list, seed=3), StreamSource(Shuffled(), list, seed=3)
    for start in range(0, 30, 10):
        early.fetch(start, 10)
    early.open(1)
    late.open(1)
    random.seed(99)
    expected = []
    for start in range(0, 30, 5):
        expected += early.fetch(start, 5)
        torch.rand(7), random.random(), np.random.rand()  # the training draws in between
    assert late.fetch(0, 30) == expected
    assert sorted(int(each) for each in expected) == list(range(30))
    assert expected != StreamSource(Shuffled(), list, seed=4).fetch(0, 30)


def test_the_random_numbers_of_the_training_are_not_disturbed() -> None:
    torch.default_generator.manual_seed(1)
    expected = torch.rand(1)
    torch.default_generator.manual_seed(1)
    StreamSource(Shuffled(), list).fetch(5, 10)
    assert torch.equal(torch.rand(1), expected)


class Noisy(Seekable):
    """Draws from the generator of the sample and from a global one."""

    def iter_from(self, pass_index: int, position: int) -> Iterator[Any]:
        for _ in range(position, LENGTH):
            yield torch.rand(1, generator=sample_generator()).item() + torch.rand(1).item()


def test_seeded_samples_of_a_seekable_stream_do_not_depend_on_the_cut() -> None:
    a, b = (StreamSource(Noisy(), list, seed=5, seed_samples=True) for _ in range(2))
    whole = a.fetch(0, 30)
    assert len(set(whole)) == 30
    assert b.fetch(20, 10) + b.fetch(0, 7) == whole[20:] + whole[:7]


def test_a_stream_may_use_the_generator_of_its_sample() -> None:
    class Own:
        def __iter__(self) -> Iterator[float]:
            for _ in range(20):
                yield torch.rand(1, generator=sample_generator()).item()

    a, b = StreamSource(Own(), list), StreamSource(Own(), list)
    assert a.fetch(0, 20) == b.fetch(0, 11) + b.fetch(11, 9)


class OneShot:
    """Its own iterator that never starts anew."""

    def __init__(self) -> None:
        self.left = 10

    def __iter__(self) -> OneShot:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


@pytest.mark.parametrize("kind", [Lines, Seekable])
def test_an_empty_stream_is_reported(kind: Any) -> None:
    with pytest.raises(TrainError, match=r"loader 'train': the data set gave no sample in pass 0$"):
        StreamSource(kind(0), name="train").available(0, 4)


def test_a_stream_that_ends_after_its_first_pass_is_found_out() -> None:
    source = StreamSource(OneShot(), list)
    assert source.available(0, 20) == 10
    source.open(1)
    with pytest.raises(TrainError, match="no sample in pass 1; can it be iterated over more than once"):
        source.available(0, 4)


def test_a_stream_that_is_shorter_when_read_again_is_found_out() -> None:
    source = StreamSource(OneShot(), list)
    source.fetch(0, 2)
    source.fetch(5, 1)
    with pytest.raises(TrainError, match="must give the same samples whenever a pass is read again"):
        source.fetch(0, 5)


@pytest.mark.parametrize("once", [iter([1]), (i for i in [1]), map(int, "1"), zip([1], [1], strict=True)])
def test_iterators_that_can_be_read_only_once_are_refused(once: Any) -> None:
    with pytest.raises(TrainError, match=r"loader 'train': the data set is a .*, which can be read only once"):
        StreamSource(once, name="train")


class BreaksOnce:
    """Fails the first time, like a network."""

    def __init__(self) -> None:
        self.broken = False

    def __iter__(self) -> Iterator[int]:
        yield from range(5)
        if not self.broken:
            self.broken = True
            raise OSError("connection lost")
        yield from range(5, 10)

    def iter_from(self, pass_index: int, position: int) -> Iterator[int]:
        return (each for each in self if each >= position)


class BreaksOnceUnseekable(BreaksOnce):
    iter_from = None  # type: ignore[assignment]


@pytest.mark.parametrize("kind", [BreaksOnce, BreaksOnceUnseekable])
def test_an_error_of_the_stream_names_the_position_and_is_no_end(kind: Any) -> None:
    source = StreamSource(kind(), list, name="train")
    with pytest.raises(
        TrainError, match=r"loader 'train': .* failed at position 5 of pass 0: OSError: connection lost"
    ):
        source.fetch(0, 8)
    assert source.fetch(0, 8) == list(range(8))


def test_a_seekable_stream_that_promised_more_is_found_out() -> None:
    with pytest.raises(TrainError, match=r"ended at position 8 of pass 0, but there should be 12 samples"):
        StreamSource(Sized(8), list).fetch(5, 7)


@pytest.mark.parametrize(("start", "count"), [(45, 10), (0, 0), (-1, 3)])
def test_positions_that_do_not_exist_are_never_cut_silently(start: int, count: int) -> None:
    with pytest.raises(ValueError, match=r"beyond the end|cannot be fetched"):
        StreamSource(Lines(), list).fetch(start, count)


def test_after_closing_it_can_be_read_again() -> None:
    source = StreamSource(Lines(), list)
    source.fetch(0, 5)
    source.close()
    source.expect([(5, 5)])
    assert source.fetch(5, 2) == [5, 6]
