"""Saving beside the training: snapshots that later steps do not reach, errors that are told, sensible intervals."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.errors import PlaceAway, TrainError
from elastane.train.worker.async_save import AsyncSaver, SaveFacts, SaveInterval, daly_interval
from elastane.train.worker.checkpoint import FolderCheckpointStore
from elastane.train.worker.state_codec import Packed, pack, unpack


class GatedStore(FolderCheckpointStore):
    """Waits for leave before it writes, and can be told to fail."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.entered = threading.Event()
        self.leave = threading.Event()
        self.error: Exception | None = None

    def save(self, step: int, packed: Packed, info: Mapping[str, Any], generation: int = 0) -> Path:
        self.entered.set()
        assert self.leave.wait(30)
        if self.error:
            raise self.error
        return super().save(step, packed, info, generation)


class Ticks:
    """A clock that goes on by one second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> GatedStore:
    return GatedStore(tmp_path)


def test_a_place_that_does_not_answer_is_tried_again_and_ends_training_only_at_its_end(
    store: GatedStore,
) -> None:
    saver = AsyncSaver(store)
    store.leave.set()
    store.error = PlaceAway("cannot save step 1 to s3://b: timed out")
    assert saver.submit(1, pack({"w": torch.zeros(1)}), {})
    while saver.busy:
        store.entered.wait(0.01)
    assert saver.problem is store.error
    assert saver.submit(2, pack({"w": torch.ones(1)}), {})  # nothing is raised: training goes on
    with pytest.raises(PlaceAway, match="timed out"):
        saver.flush()
    store.error = None
    assert saver.submit(3, pack({"w": torch.ones(1)}), {})
    saver.flush()
    assert saver.problem is None
    assert saved_weights(store) == [1.0]


def weights_of(packed: Packed | None) -> list[float]:
    assert packed is not None
    return list(unpack(packed)["w"].tolist())


def saved_weights(store: FolderCheckpointStore) -> list[float]:
    loaded = store.load()
    return weights_of(loaded.packed if loaded else None)


def test_training_goes_on_without_changing_what_is_being_saved(store: GatedStore) -> None:
    weights, info = torch.zeros(3), {"loss": [1.0]}
    saver = AsyncSaver(store)
    assert saver.submit(1, pack({"w": weights}), info)
    weights.add_(1)
    info["loss"].append(2.0)
    store.leave.set()
    saver.flush()
    assert saved_weights(store) == [0, 0, 0]
    loaded = store.load()
    assert loaded is not None
    assert loaded.info == {"loss": [1.0]}


def test_a_submit_during_a_write_does_nothing(store: GatedStore) -> None:
    weights = torch.zeros(3)
    saver = AsyncSaver(store)
    assert saver.submit(1, pack({"w": weights}), {})
    assert store.entered.wait(30)
    weights.add_(1)
    assert saver.busy
    assert not saver.submit(2, pack({"w": weights}), {})
    assert weights_of(saver.snapshot) == [0, 0, 0]
    store.leave.set()
    saver.flush()
    assert not saver.busy
    assert store.steps() == [1]
    assert saver.submit(2, pack({"w": weights}), {})
    saver.flush()
    assert saved_weights(store) == [1, 1, 1]


def test_two_buffers_are_used_in_turn(store: GatedStore) -> None:
    store.leave.set()
    saver, weights, places = AsyncSaver(store), torch.zeros(3), []
    for step in range(4):
        weights.fill_(step)
        saver.submit(step, pack({"w": weights}), {})
        saver.flush()
        assert weights_of(saver.snapshot) == [step] * 3
        assert saver.snapshot is not None
        places.append(saver.snapshot.tensors["w"].data_ptr())
    assert places[0] == places[2] != places[1] == places[3]


def test_memory_is_found_before_the_training_waits_for_it(store: GatedStore) -> None:
    store.leave.set()
    saver, weights = AsyncSaver(store), torch.ones(3)
    saver.prepare(pack({"w": weights}))
    assert saver.snapshot is None
    prepared = []
    for step in range(2):
        assert saver._spare is not None
        prepared.append(saver._spare.tensors["w"])
        saver.submit(step, pack({"w": weights}), {})
        saver.flush()
        assert saver.snapshot is not None
        assert saver.snapshot.tensors["w"] is prepared[step]
    assert prepared[0].data_ptr() != prepared[1].data_ptr()


def test_a_copy_that_breaks_off_leaves_the_snapshot_whole(store: GatedStore) -> None:
    store.leave.set()
    saver = AsyncSaver(store)
    for step in (1, 2):
        saver.submit(step, pack({"w": torch.full((3,), step), "x": torch.zeros(1)}), {})
        saver.flush()
    broken = pack({"w": torch.full((3,), 9), "x": torch.zeros(1)})
    broken.tensors["x"] = torch.empty(1, device="meta")
    with pytest.raises(NotImplementedError):
        saver.submit(3, broken, {})
    assert weights_of(saver.snapshot) == [2, 2, 2]
    assert not saver.busy


def test_the_facts_of_a_save_are_kept(store: GatedStore) -> None:
    store.leave.set()
    saver = AsyncSaver(store, clock=Ticks())
    assert saver.last is None
    saver.submit(7, pack({"w": torch.zeros(5)}), {})
    saver.flush()
    assert saver.last == SaveFacts(step=7, bytes=20, blocking_s=1.0, write_s=1.0)


@pytest.mark.parametrize("tell", ["submit", "flush"])
def test_an_error_of_the_thread_is_told_once_and_then_saving_goes_on(store: GatedStore, tell: str) -> None:
    store.leave.set()
    store.error = TrainError("the disk is full")
    saver = AsyncSaver(store)
    saver.submit(1, pack({"w": torch.zeros(1)}), {})
    assert saver._thread is not None
    saver._thread.join()
    store.error = None
    with pytest.raises(TrainError, match="the disk is full"):
        saver.flush() if tell == "flush" else saver.submit(2, pack({"w": torch.zeros(1)}), {})
    assert str(saver.problem) == "the disk is full"
    assert saver.last is None
    saver.flush()
    assert saver.submit(3, pack({"w": torch.zeros(1)}), {})
    saver.flush()
    assert saver.problem is None
    assert store.steps() == [3]


def test_an_unexpected_error_of_the_thread_names_the_step_and_the_cause(store: GatedStore) -> None:
    store.leave.set()
    store.error = MemoryError("no memory")
    saver = AsyncSaver(store)
    saver.submit(5, pack({}), {})
    with pytest.raises(TrainError, match=r"checkpoint of step 5 failed: MemoryError") as caught:
        saver.flush()
    assert caught.value.__cause__ is store.error


def test_a_fenced_generation_learns_that_it_may_not_save(store: GatedStore) -> None:
    store.leave.set()
    store.raise_fence(3)
    saver = AsyncSaver(store)
    saver.submit(1, pack({"w": torch.zeros(1)}), {}, generation=2)
    with pytest.raises(TrainError, match="newer generation"):
        saver.flush()
    assert store.steps() == []


def test_saving_shuts_out_older_generations(store: GatedStore) -> None:
    store.leave.set()
    saver = AsyncSaver(store)
    saver.submit(1, pack({"w": torch.zeros(1)}), {}, generation=4)
    saver.flush()
    with pytest.raises(TrainError, match=r"newer generation \(4\)"):
        store.save(2, pack({}), {}, generation=3)


def test_flush_without_a_save_returns(store: GatedStore) -> None:
    AsyncSaver(store).flush()


# How often


def interval_after(cost_s: float, **settings: float) -> SaveInterval:
    interval = SaveInterval(0.0, **settings)  # type: ignore[arg-type]
    interval.saved(0.0, cost_s)
    return interval


def test_a_small_cost_gives_youngs_interval() -> None:
    assert daly_interval(1e-6, 3600.0) == pytest.approx(math.sqrt(2 * 1e-6 * 3600), rel=1e-3)
    assert interval_after(0.1).seconds(0.0) == pytest.approx(math.sqrt(2 * 0.1 * 3600), rel=0.01)


def wasted(cost_s: float, mtbf_s: float, interval_s: float) -> float:
    """Expected time per second of work, for failures of a Poisson process and restarts that cost nothing."""
    return mtbf_s * math.expm1((interval_s + cost_s) / mtbf_s) / interval_s - 1.0


@given(st.floats(0.01, 100.0), st.floats(300.0, 1e5))
def test_no_interval_loses_noticeably_less(cost_s: float, mtbf_s: float) -> None:
    chosen = wasted(cost_s, mtbf_s, daly_interval(cost_s, mtbf_s))
    best = min(wasted(cost_s, mtbf_s, 1.02**power) for power in range(-100, 600))
    assert chosen <= 1.01 * best


def test_the_correction_matters_when_the_cost_is_large() -> None:
    cost_s, mtbf_s = 60.0, 300.0
    young = wasted(cost_s, mtbf_s, math.sqrt(2 * cost_s * mtbf_s))
    assert wasted(cost_s, mtbf_s, daly_interval(cost_s, mtbf_s)) < 0.99 * young
    assert daly_interval(700.0, 300.0) == 300.0


@given(st.floats(0.0, 1e3), st.floats(0.0, 1e7), st.integers(0, 1000))
def test_limits_and_overhead_hold_always(cost_s: float, watched_s: float, failures: int) -> None:
    interval = SaveInterval(0.0, cost_s=cost_s, observed_s=watched_s, failures=failures)
    seconds = interval.seconds(0.0)
    assert 10.0 <= seconds <= max(1800.0, cost_s / 0.01)
    assert cost_s / (seconds + cost_s) <= 0.01


def test_failures_shorten_the_interval_and_quiet_time_lengthens_it() -> None:
    interval = interval_after(0.5)
    at_first = interval.seconds(0.0)
    assert interval.seconds(36_000.0) > at_first
    for _ in range(3):
        interval.failed(100.0)
    assert interval.mtbf_s(100.0) == pytest.approx(3700 / 4)
    assert interval.seconds(100.0) < at_first


def test_the_mean_time_between_failures_is_learned() -> None:
    rng, interval, now = random.Random(1), SaveInterval(0.0), 0.0
    for _ in range(2000):
        now += rng.expovariate(1 / 500.0)
        interval.failed(now)
    assert interval.mtbf_s(now) == pytest.approx(500.0, rel=0.07)


def test_a_save_is_due_after_the_interval_and_not_before() -> None:
    interval = SaveInterval(100.0)
    assert not interval.due(109.9)
    assert interval.due(110.0)  # the cost is unknown: soon, to learn it
    interval.saved(110.0, cost_s=0.2)
    seconds = interval.seconds(110.0)
    assert not interval.due(110.0 + 0.99 * seconds)
    assert interval.due(110.0 + 1.01 * seconds)
    interval.failed(140.0)  # back at the last save: there is nothing new yet
    assert not interval.due(140.0)


def test_the_users_interval_is_taken_as_it_is() -> None:
    interval = interval_after(50.0, fixed_s=3.0)
    assert interval.seconds(0.0) == 3.0
    assert interval.due(3.0)


def test_one_slow_save_does_not_rule_the_interval() -> None:
    interval = interval_after(0.1)
    for cost_s in (10.0, *[0.1] * 20):
        interval.saved(0.0, cost_s)
    assert interval.cost_s == pytest.approx(0.1, rel=0.1)


def test_what_was_learned_survives_a_restart() -> None:
    before = interval_after(0.4)
    before.failed(50.0)
    after = SaveInterval(7.0, **json.loads(json.dumps(before.to_dict(200.0))))
    assert after.mtbf_s(7.0) == before.mtbf_s(200.0)
    assert after.seconds(7.0) == before.seconds(200.0)


@pytest.mark.parametrize("fixed_s", [0.0, -1.0, math.inf, math.nan])
def test_an_impossible_interval_is_refused(fixed_s: float) -> None:
    with pytest.raises(TrainError, match=f"above 0, not {fixed_s}"):
        SaveInterval(0.0, fixed_s)
    with pytest.raises(TrainError, match="between 20 and 10"):
        SaveInterval(0.0, min_s=20, max_s=10)
