"""Reading samples: the fast way gives exactly what the slow way gives, and errors say where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import Dataset, Subset, TensorDataset, default_collate

from elastane.train.data import sample_generator
from elastane.train.data.reader import Abandoned, Reader
from elastane.train.errors import TrainError

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8]


def at(*indices: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(indices, dtype=np.int64)


def identical(a: Any, b: Any) -> bool:
    return (
        type(a) is type(b) is list
        and [(x.dtype, x.stride()) for x in a] == [(y.dtype, y.stride()) for y in b]
        and all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    )


class Items(Dataset[Any]):
    """Counts how it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        self.asked.append(index)
        if index == 7:
            raise OSError("disk gone")
        return 10 * index


class ManyItems(Items):
    def __getitems__(self, indices: list[int]) -> list[int]:
        assert type(indices) is list
        assert all(type(index) is int for index in indices)
        return [self[index] for index in indices]


@given(
    st.lists(
        st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)), min_size=1, max_size=3
    ),
    st.lists(st.integers(-8, 7), min_size=1, max_size=12),
)
def test_rows_of_tensors_are_exactly_the_collated_samples(
    kinds: list[tuple[torch.dtype, list[int]]], indices: list[int]
) -> None:
    generator = torch.Generator().manual_seed(0)
    tensors = [torch.randint(0, 2, (8, *shape), generator=generator).to(dtype) for dtype, shape in kinds]
    dataset = TensorDataset(*tensors)
    expected = default_collate([dataset[index] for index in indices])
    assert identical(Reader(dataset).read(0, 0, at(*indices)), expected)


def test_the_fast_way_is_taken_for_tensors_and_their_subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    subset = Subset(Subset(dataset, [8, 6, 4, 2]), [3, 1])
    expected = default_collate([subset[1], subset[0], subset[1]])
    monkeypatch.setattr(TensorDataset, "__getitem__", None)
    assert identical(Reader(subset).read(0, 0, at(1, 0, 1)), expected)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(6, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(5, 6).T,
    ],
    ids=["channels last", "transposed"],
)
def test_unusual_tensors_are_collated_as_torch_does(tensor: Tensor) -> None:
    dataset = TensorDataset(tensor)
    (expected,) = default_collate([dataset[index] for index in (2, 0)])
    (found,) = Reader(dataset).read(0, 0, at(2, 0))
    assert found.stride() == expected.stride()
    assert torch.equal(found, expected)


def test_changing_a_batch_does_not_change_the_data() -> None:
    dataset = TensorDataset(torch.zeros(4, 2))
    Reader(dataset).read(0, 0, at(0, 1, 2, 3))[0].fill_(7.0)
    assert torch.equal(dataset.tensors[0], torch.zeros(4, 2))


def test_a_collate_function_gets_the_samples() -> None:
    dataset = TensorDataset(torch.arange(4))
    assert Reader(dataset, lambda samples: [int(x) for (x,) in samples]).read(0, 0, at(3, 1)) == [3, 1]


@pytest.mark.parametrize(
    "dataset", [Items(), ManyItems(), [10 * i for i in range(10)]], ids=["one", "many", "list"]
)
def test_samples_come_in_the_order_of_their_indices(dataset: Any) -> None:
    assert Reader(dataset).read(0, 0, at(4, 0, 9)).tolist() == [40, 0, 90]


def test_each_sample_has_its_own_generator_however_it_is_read() -> None:
    class Noise(Items):
        def __getitem__(self, index: int) -> Any:
            return torch.rand(1, generator=sample_generator()).item()

    class ManyNoise(Items):
        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [torch.rand(1, generator=sample_generator(index)).item() for index in indices]

    singly = Reader(Noise(), list, seed=3).read(2, 0, at(1, 2, 5))
    assert len(set(singly)) == 3
    assert Reader(ManyNoise(), list, seed=3).read(2, 0, at(1, 2, 5)) == singly


def test_seeded_samples_are_read_one_by_one() -> None:
    class ManyOnly(Items):
        def __getitem__(self, index: int) -> Any:
            return torch.rand(1).item()

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return torch.rand(len(indices)).tolist()

    reader = Reader(ManyOnly(), list, seed_samples=True)
    assert reader.read(0, 0, at(3, 4)) == reader.read(0, 0, at(3)) + reader.read(0, 1, at(4))


def test_a_random_collate_function_repeats_itself_for_the_same_span() -> None:
    reader = Reader(Items(), lambda samples: torch.rand(1).item(), seed_samples=True)
    assert reader.read(0, 4, at(1)) == reader.read(0, 4, at(1))
    assert reader.read(0, 4, at(1)) != reader.read(0, 5, at(1))
    assert reader.read(0, 4, at(1)) != reader.read(1, 4, at(1))


def test_an_error_names_loader_index_and_cause() -> None:
    with pytest.raises(TrainError, match=r"loader 'train': .* failed at index 7: OSError: disk gone") as caught:
        Reader(Items(), name="train").read(0, 0, at(1, 7, 2))
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(TrainError, match=r"__getitems__ for index 1, 7, 2: OSError: disk gone"):
        Reader(ManyItems()).read(0, 0, at(1, 7, 2))


def test_an_index_outside_a_tensor_data_set_is_named() -> None:
    with pytest.raises(TrainError, match="at index 10: IndexError"):
        Reader(TensorDataset(torch.arange(10))).read(0, 0, at(3, 10))


def test_samples_that_do_not_fit_together_are_explained() -> None:
    ragged = [torch.zeros(index + 1) for index in range(4)]
    with pytest.raises(
        TrainError, match=r"loader 'train': .* positions 5 to 6 of pass 3 could not be collated"
    ):
        Reader(ragged, name="train").read(3, 5, at(0, 1))


def test_reading_stops_between_samples_when_nobody_wants_them() -> None:
    dataset = Items()
    with pytest.raises(Abandoned):
        Reader(dataset).read(0, 0, at(0, 1, 2, 3), abandoned=lambda: len(dataset.asked) == 2)
    assert dataset.asked == [0, 1]
