"""A script may say to ``job.loader`` what it said to torch's ``DataLoader``, and ask it the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import elastane.train as et

DATA = TensorDataset(torch.arange(10.0).view(10, 1))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(DATA)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(run=tmp_path / "run", checkpoint_every=3600.0)


def batches(job: et.Job, loader: Any, epochs: int = 2) -> list[list[int]]:
    model = job.model(torch.nn.Linear(1, 1))
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.0))
    seen = []
    for _ in job.epochs(epochs):
        for (x,) in loader:
            model(x).mean().backward()
            opt.step()
            seen.append(x.flatten().int().tolist())
    return seen


def test_the_usual_settings_are_taken_and_can_be_asked_for(job: et.Job) -> None:
    loader = job.loader(
        DATA,
        batch_size=4,
        shuffle=True,
        drop_last=True,
        pin_memory=True,
        persistent_workers=True,
        prefetch_factor=4,
        num_workers=0,
        timeout=5,
        generator=torch.Generator(),
        worker_init_fn=print,
    )
    assert loader.dataset is DATA
    assert (loader.batch_size, loader.drop_last, loader.num_workers) == (4, True, 0)
    assert (loader.pin_memory, loader.persistent_workers, loader.prefetch_factor) == (True, True, 4)
    assert (loader.timeout, loader.sampler, loader.collate_fn) == (5, None, None)
    assert not hasattr(loader, "no_such_thing")


@pytest.mark.parametrize("data", [DATA, Stream()])
def test_drop_last_leaves_the_rest_of_each_pass_out(job: et.Job, data: Any) -> None:
    loader = job.loader(data, batch_size=4, drop_last=True)
    seen = batches(job, loader)
    assert [len(batch) for batch in seen] == [4, 4, 4, 4]
    for first in (0, 2):
        assert len({*seen[first], *seen[first + 1]}) == 8
    if data is DATA:
        assert len(loader) == 2


@pytest.mark.parametrize("mode", ["fixed", "adaptive", "consistent"])
def test_an_epoch_with_drop_last_ends_in_every_mode(
    tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_: None)
    job = et.init(mode, run=tmp_path / mode, virtual=2)
    batches(job, job.loader(DATA, 4, max_batch_size=4, drop_last=True))
    assert job.step == 4


def test_a_data_loader_says_all_the_rest(job: et.Job) -> None:
    loader = job.loader(DataLoader(DATA, batch_size=4, drop_last=True, pin_memory=False))
    assert loader.dataset is DATA
    assert batches(job, loader, 1) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_data_loader_that_shuffles_is_shuffled_anew_in_each_pass(job: et.Job) -> None:
    seen = batches(job, job.loader(DataLoader(DATA, batch_size=5, shuffle=True)))
    assert sorted(seen[0] + seen[1]) == sorted(seen[2] + seen[3]) == list(range(10))
    assert seen[:2] != seen[2:]


def test_a_data_loader_over_a_stream_is_read_as_one(job: et.Job) -> None:
    assert batches(job, job.loader(DataLoader(Stream(), batch_size=5)), 1) == [
        list(range(5)),
        list(range(5, 10)),
    ]


def test_a_sampler_inside_a_data_loader_or_a_batch_sampler_keeps_its_order(job: et.Job) -> None:
    weighted = WeightedRandomSampler([0.0] * 9 + [1.0], 6)
    first = job.loader(DataLoader(DATA, batch_size=3, sampler=weighted), name="one")
    second = job.loader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 3, True), name="two")
    third = job.loader(DATA, batch_sampler=BatchSampler(RandomSampler(DATA), 5, False), name="three")
    assert (len(second), second.batch_size, second.drop_last, len(third)) == (3, 3, True, 2)
    assert batches(job, first, 1) == [[9, 9, 9], [9, 9, 9]]


class OwnBatches:
    drop_last = False

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1], [2]])


@pytest.mark.parametrize(
    ("data", "settings", "problem"),
    [
        (DATA, {"batch_size": 4, "drop_lst": True}, "did you mean 'drop_last'"),
        (DATA, {}, "batch_size is missing"),
        (DATA, {"batch_sampler": OwnBatches()}, "fixes who gets what"),
        (DATA, {"batch_size": 2, "batch_sampler": OwnBatches()}, "leave those out"),
        (DATA, {"batch_size": 2, "num_workers": 1, "worker_init_fn": print}, "worker_init_fn= is not called"),
        (DataLoader(DATA, batch_size=2), {"shuffle": True}, "shuffle= was given beside a DataLoader"),
        (DataLoader(DATA, batch_size=2), {"drop_last": True}, "drop_last= was given beside a DataLoader"),
        (DataLoader(DATA, batch_size=None), {}, "makes no batches"),
        (DataLoader(DATA, batch_sampler=OwnBatches()), {}, "makes no batches|fixes who gets what"),
        (DataLoader(Stream(), batch_size=2, num_workers=1), {}, "leave out num_workers"),
    ],
)
def test_what_cannot_be_meant_is_one_clear_line(
    job: et.Job, data: Any, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(et.TrainError, match=problem) as found:
        job.loader(data, **settings)
    assert "\n" not in str(found.value)
