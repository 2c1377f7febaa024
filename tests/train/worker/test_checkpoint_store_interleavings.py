"""Whoever writes, crashes or looks at old lists: what is read is whole, and the newest of the history that counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.train.errors import TrainError
from elastane.train.worker.checkpoint_store_url import UrlCheckpointStore
from elastane.train.worker.state_codec import pack, unpack
from train.worker.slow_sea import Boat, Sea, Turns

Lineage = list[list[int]]


@dataclass
class Life:
    """One generation's writer: what it found, and what it has written completely."""

    generation: int
    saves: int
    lags: list[int]
    crash_at: int | None
    after: bool
    owned: bool = False
    loaded: bool = False
    base: Lineage = field(default_factory=list)
    written: list[Lineage] = field(default_factory=list)
    problem: str = ""

    def live(self, sea: Sea, turns: Turns, keep: int) -> None:
        name = str(self.generation)
        boat = Boat(sea, lambda: turns.wait(name), self.lags, self.crash_at, after=self.after)
        store = UrlCheckpointStore(boat, "sea", keep, sleep=boat.sleep)
        try:
            store.own(self.generation)
            self.owned = True
            self.base = lineage(store)
            self.loaded = True
            for number in range(self.saves):
                self.now = [*self.base, [self.generation, number]]
                store.save(10 * self.generation + number, pack({"lineage": self.now}), {}, self.generation)
        except TrainError as error:
            self.problem = str(error)


def lineage(store: UrlCheckpointStore) -> Lineage:
    loaded = store.load()
    return [] if loaded is None else unpack(loaded.packed)["lineage"]


def lives(generation: int) -> st.SearchStrategy[Life]:
    return st.builds(
        Life,
        st.just(generation),
        st.integers(0, 4),
        st.lists(st.integers(0, 60), max_size=12),
        st.none() | st.integers(1, 60),
        st.booleans(),
    )


@settings(max_examples=150, deadline=None)
@given(
    st.tuples(lives(1), lives(2), lives(3)),
    st.lists(st.integers(0, 2), max_size=200),
    st.integers(1, 2),
)
def test_the_newest_whole_checkpoint_of_the_latest_history_is_read(
    everybody: tuple[Life, ...], choices: list[int], keep: int
) -> None:
    sea, turns = Sea(), Turns(choices)
    turns.run({str(life.generation): lambda life=life: life.live(sea, turns, keep) for life in everybody})
    for life in everybody:
        assert not life.problem or "newer generation" in life.problem, life.problem
    published = manifests(sea)
    boat = Boat(sea)
    reader = UrlCheckpointStore(boat, "sea", keep, sleep=boat.sleep)
    assert reader.highest() <= 3
    reader.own(4)
    found = lineage(reader)
    assert boat.slept == 0
    owners = [life for life in everybody if life.owned]
    if not owners:
        assert found == [] or found[-1][0] <= 3
        return
    last = owners[-1]
    mine = [name for name in published if name.startswith(f"checkpoint-{last.generation:016d}")]
    if mine:  # of a superseded writer nothing is read
        assert found[:-1] == last.base
        assert found[-1][0] == last.generation
        serials = [int(name.split("-")[2]) for name in mine]
        assert found[-1][1] + 1 == max(serials)
    elif last.loaded:
        assert found == last.base
    for earlier, later in pairwise(found):
        assert earlier[0] < later[0]


def manifests(sea: Sea) -> list[str]:
    return [name for name in sea.now if name.endswith(".manifest")]


@settings(max_examples=60, deadline=None)
@given(lives(1), lives(2), st.lists(st.integers(0, 1), max_size=120), st.lists(st.integers(0, 60), max_size=8))
def test_what_a_superseded_writer_completes_later_is_never_read_and_goes_with_the_next_save(
    old: Life, new: Life, choices: list[int], lags: list[int]
) -> None:
    sea, turns = Sea(), Turns(choices)
    turns.run({str(life.generation): lambda life=life: life.live(sea, turns, 2) for life in (old, new)})
    boat = Boat(sea, lags=lags)
    store = UrlCheckpointStore(boat, "sea", 2, sleep=boat.sleep)
    store.own(3)
    before = lineage(store)
    stale = Boat(sea)
    ghost = UrlCheckpointStore(stale, "sea", 2, sleep=stale.sleep)
    ghost._list = lambda since=None: type(store._list())((), (), {}, ())  # type: ignore[method-assign]  # sees nothing
    ghost.save(99, pack({"lineage": [[99, 99]]}), {}, 2)
    assert lineage(store) == before
    other = UrlCheckpointStore(Boat(sea), "sea", 2)
    other.own(4)
    assert lineage(other) == before
    other.save(100, pack({"lineage": [*before, [4, 0]]}), {}, 4)
    other.save(101, pack({"lineage": [*before, [4, 1]]}), {}, 4)
    assert len(manifests(sea)) == 2
    assert len([name for name in sea.now if name.startswith("claim")]) == 1
    assert len(sea.now) == 5  # nothing is left behind: two manifests with one part each, and the claim


def test_lists_that_are_a_minute_old_are_waited_for_and_nothing_begins_anew() -> None:
    sea = Sea()
    store = UrlCheckpointStore(Boat(sea), "sea")
    store.own(1)
    for step in range(5):
        store.save(step, pack({"lineage": [[1, step]]}), {}, 1)
    boat = Boat(sea, lags=[10**6] * 5)  # the list is still empty
    late = UrlCheckpointStore(boat, "sea", sleep=boat.sleep)
    late.own(2)
    assert boat.slept
    assert lineage(late) == [[1, 4]]
    boat = Boat(sea, lags=[14] * 5)  # it names what has been removed
    passer_by = UrlCheckpointStore(boat, "sea", sleep=boat.sleep)
    assert lineage(passer_by) == [[1, 4]]
    assert boat.slept


def saved(sea: Sea, generation: int, steps: int) -> UrlCheckpointStore:
    """A store that was claimed and written to."""
    store = UrlCheckpointStore(Boat(sea), "sea")
    store.own(generation)
    for step in range(steps):
        store.save(step, pack({"lineage": [[generation, step]]}), {}, generation)
    return store


def test_by_a_list_without_its_own_checkpoint_a_writer_removes_nothing() -> None:
    sea = Sea()
    saved(sea, 1, 2)
    boat = Boat(sea, lags=[0, 1])  # before and after it writes
    UrlCheckpointStore(boat, "sea", keep=1).save(2, pack({"lineage": [[1, 2]]}), {}, 1)
    assert len(manifests(sea)) == 3
    UrlCheckpointStore(Boat(sea), "sea", keep=1).save(3, pack({"lineage": [[1, 3]]}), {}, 1)
    assert len(manifests(sea)) == 1


def test_a_writer_that_sees_the_claim_too_late_removes_nothing_and_is_told() -> None:
    sea = Sea()
    stale = saved(sea, 1, 2)
    new = UrlCheckpointStore(Boat(sea), "sea")
    new.own(2)
    found = manifests(sea)
    stale._objects._lags.extend([len(sea.before) - 1])  # type: ignore[attr-defined]  # it looks, and sees no claim yet
    with pytest.raises(TrainError, match=r"a newer generation \(2\) owns this place"):
        stale.save(9, pack({"lineage": [[1, 9]]}), {}, 1)
    assert set(found) < set(manifests(sea))
    assert lineage(new) == [[1, 1]]


def test_a_leader_of_before_removes_nothing_of_the_next_generation() -> None:
    """A change of members makes no claim; its checkpoints are newer all the same."""
    sea = Sea()
    before = saved(sea, 1, 2)
    after = UrlCheckpointStore(Boat(sea), "sea")
    for step in (2, 3, 4):
        after.save(step, pack({"lineage": [[2, step]]}), {}, 2)
    newest = manifests(sea)
    before.save(3, pack({"lineage": [[1, 3]]}), {}, 1)
    assert set(newest) < set(manifests(sea))
    assert lineage(after) == [[2, 4]]
