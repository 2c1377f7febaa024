"""Messages between processes: everything arrives as it was, and nothing is left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch

from elastane.train.data.ipc import INLINE_LIMIT, pack, receive, send

LARGE = INLINE_LIMIT  # elements, hence more bytes than the limit for every type used


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = Pipe()
    yield ours, theirs
    ours.close()
    theirs.close()


def carried(ends: tuple[Connection, Connection], message: Any) -> Any:
    sender = Thread(target=lambda: send(ends[0], pack(message)))
    sender.start()
    received = receive(ends[1])
    sender.join()
    return received


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


TENSORS = {
    "small": torch.arange(5),
    "large": torch.randn(LARGE),
    "empty": torch.empty(0, 3),
    "scalar": torch.tensor(3.5),
    "bfloat16": torch.randn(LARGE).bfloat16(),
    "bool": torch.rand(LARGE + 1) > 0.5,
    "conjugate": torch.randn(LARGE, dtype=torch.complex64).conj(),
    "channels last": torch.randn(8, 3, 64, 64).to(memory_format=torch.channels_last),
    "column": torch.randn(LARGE, 3)[:, 1],
    "expanded": torch.randn(3, 1).expand(3, LARGE),
    "middle of another": torch.randn(3, LARGE)[1],
    "sparse": torch.eye(5).to_sparse(),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_a_tensor_arrives_as_it_was(kind: str, ends: tuple[Connection, Connection]) -> None:
    sent = TENSORS[kind]
    found = carried(ends, sent)
    assert found.dtype == sent.dtype
    assert found.layout == sent.layout
    assert torch.equal(found.to_dense(), sent.to_dense())
    if kind in {"large", "channels last"}:
        assert found.stride() == sent.stride()


def test_any_structure_arrives(ends: tuple[Connection, Connection]) -> None:
    shared = torch.randn(LARGE)
    found = carried(ends, {"a": [shared, shared], "text": ["x", "y" * 3 * LARGE], "n": np.arange(float(LARGE))})
    assert found["a"][0] is found["a"][1]
    assert torch.equal(found["a"][0], shared)
    assert found["text"] == ["x", "y" * 3 * LARGE]
    assert np.array_equal(found["n"], np.arange(float(LARGE)))


@pytest.mark.parametrize("size", [4, LARGE])
def test_what_arrives_may_be_changed(size: int, ends: tuple[Connection, Connection]) -> None:
    tensor, array = carried(ends, (torch.zeros(size), np.zeros(size)))
    tensor += 1
    array += 1
    assert float(tensor.sum()) == float(array.sum()) == size


def test_kept_batches_hold_no_descriptors(ends: tuple[Connection, Connection]) -> None:
    before = descriptors()
    kept = [carried(ends, (torch.full((LARGE,), i), np.full(LARGE, i))) for i in range(50)]
    assert descriptors() == before
    assert [int(tensor[-1]) + int(array[0]) for tensor, array in kept] == [2 * i for i in range(50)]


def test_a_small_tensor_does_not_keep_its_large_neighbour(ends: tuple[Connection, Connection]) -> None:
    _, labels = carried(ends, (torch.randn(LARGE), torch.arange(3)))
    assert labels.untyped_storage().nbytes() == 24


@pytest.mark.parametrize("cut", [0, 2, 9, 30])
def test_the_end_of_the_other_side_is_a_connection_error_wherever_it_happens(
    cut: int, ends: tuple[Connection, Connection]
) -> None:
    record, recorded = Pipe()
    send(record, pack([1, 2, 3]))
    whole = os.read(recorded.fileno(), 1000)
    assert cut < len(whole)
    os.write(ends[0].fileno(), whole[:cut])
    ends[0].close()
    with pytest.raises(ConnectionError):
        receive(ends[1])
    record.close()
    recorded.close()
