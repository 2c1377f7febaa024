"""Optimus placement: the published oracle, and the theorem against every possible layout."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.models.placement import Layout, even_layouts, fewest_machines
from elastane.resources import Resources

SLOT = Resources(cpus=1.0)


def all_layouts(servers: int, workers: int, machines: int, slots: int) -> list[Layout]:
    def spreads(count: int) -> list[tuple[int, ...]]:
        return [s for s in product(range(min(count, slots) + 1), repeat=machines) if sum(s) == count]

    return [
        Layout(p, w)
        for p, w in product(spreads(servers), spreads(workers))
        if all(a + b <= slots for a, b in zip(p, w, strict=True))
    ]


def units(layout: Layout) -> float:
    """Transfer time with S/p = 1 and unit bandwidth, as in the paper's figure."""
    return layout.transfer_s(model_gb=float(sum(layout.servers)))


def test_published_example() -> None:
    found = fewest_machines(2, 4, [SLOT * 3] * 3, server=SLOT, worker=SLOT)
    assert found == Layout((1, 1), (2, 2))
    assert units(found) == 2.0
    assert units(Layout((2, 0, 0), (1, 3, 0))) == 3.0
    assert units(Layout((1, 1, 0), (1, 1, 2))) == 3.0


def test_published_example_is_the_only_optimum() -> None:
    layouts = all_layouts(2, 4, machines=3, slots=3)
    best = [layout for layout in layouts if units(layout) == 2.0]
    assert min(units(layout) for layout in layouts) == 2.0
    assert {tuple(sorted(zip(x.servers, x.workers, strict=True))) for x in best} == {((0, 0), (1, 2), (1, 2))}


@settings(max_examples=40, deadline=None)
@given(each=st.tuples(st.integers(1, 2), st.integers(1, 3)), used=st.integers(1, 3), spare=st.integers(0, 1))
def test_no_layout_beats_fewest_machines_evenly(each: tuple[int, int], used: int, spare: int) -> None:
    # The theorem's premise: equal machines, full when the job divides evenly among them.
    slots = sum(each)
    servers, workers = each[0] * used, each[1] * used
    found = fewest_machines(servers, workers, [SLOT * slots] * (used + spare), SLOT, SLOT)
    assert found is not None
    assert found.machines == used
    best = min(units(layout) for layout in all_layouts(servers, workers, used + spare, slots))
    assert units(found) == best


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 8))
def test_even_layouts_place_everything_evenly(servers: int, workers: int, machines: int) -> None:
    for layout in even_layouts(servers, workers, machines):
        assert (sum(layout.servers), sum(layout.workers)) == (servers, workers)
        assert max(layout.servers) - min(layout.servers) <= 1
        assert max(layout.workers) - min(layout.workers) <= 1


@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.integers(0, 8), min_size=1, max_size=6))
def test_nothing_is_placed_where_there_is_no_room(servers: int, workers: int, slots: list[int]) -> None:
    free = [SLOT * count for count in sorted(slots, reverse=True)]
    found = fewest_machines(servers, workers, free, SLOT, SLOT)
    if found is not None:
        for p, w, room in zip(found.servers, found.workers, free, strict=False):
            assert (SLOT * (p + w)).fits(room)


def test_odd_tasks_stand_apart_only_when_room_demands_it() -> None:
    assert fewest_machines(1, 1, [SLOT, SLOT], SLOT, SLOT) == Layout((1, 0), (0, 1))
    roomy = fewest_machines(3, 3, [SLOT * 4, SLOT * 3], SLOT, SLOT)
    tight = fewest_machines(3, 3, [SLOT * 3, SLOT * 3], SLOT, SLOT)
    assert roomy == Layout((2, 1), (2, 1))
    assert tight == Layout((2, 1), (1, 2))


def test_every_kind_of_resource_counts() -> None:
    machine = Resources(gpus=2.0, cpus=4.0)
    found = fewest_machines(2, 2, [machine] * 2, Resources(cpus=3.0), Resources(gpus=1.0))
    assert found == Layout((1, 1), (1, 1))
    assert fewest_machines(1, 3, [machine], Resources(cpus=3.0), Resources(gpus=1.0)) is None


def test_traffic_within_a_machine_is_free_and_unused_machines_do_not_count() -> None:
    assert Layout((2, 0), (4, 0)).transfer_s(10.0) == 0.0


def test_bandwidth_and_size_scale_the_time() -> None:
    layout = Layout((1, 1), (2, 2))
    assert layout.transfer_s(2.0, server_gb_per_s=0.5) == pytest.approx(4.0)
    assert layout.transfer_s(2.0, server_gb_per_s=100.0, worker_gb_per_s=0.25) == pytest.approx(4.0)


def test_a_job_without_servers_has_no_such_layout() -> None:
    with pytest.raises(ElastaneError, match="parameter server"):
        Layout((0,), (2,)).transfer_s(1.0)
    with pytest.raises(ElastaneError, match="1 or more"):
        even_layouts(0, 2, 1)
