"""A reduction whose members were at different places makes no step on any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from elastane.train.errors import MembershipChanged, TrainError
from elastane.train.worker.membership import Membership
from elastane.train.worker.piggyback_table import FIXED, Table
from elastane.train.worker.whereabouts import Whereabouts

WRITE = "if data.steps >= n: break"


@dataclass
class Here:
    place: str = "data 0 0 0 640"
    entered_inside: bool = False


NEXT = Here("data 1 0 0 640")
NEW = Here(entered_inside=True)


def outcomes(*members: Here, since: Sequence[Whereabouts] = ()) -> list[str]:
    """What the comparison comes to on each rank."""
    each = list(since) or [Whereabouts(WRITE) for _ in members]
    rows = []
    for whereabouts, here in zip(each, members, strict=True):
        row = [0.0] * FIXED
        whereabouts.say(row, here)
        rows.append(row)
    table = Table.read(torch.tensor(rows).flatten(), len(rows))
    found = []
    for rank, (whereabouts, here) in enumerate(zip(each, members, strict=True)):
        membership = Membership()
        membership.rank = rank
        try:
            whereabouts.compare(table, membership, here)
            found.append("step")
        except TrainError as error:
            found.append("ends" if str(error).endswith(WRITE) else str(error))
        except MembershipChanged:
            found.append("recovers")
    return found


def test_members_at_one_place_make_the_step_whoever_came_late() -> None:
    assert outcomes(Here(), NEW, Here()) == ["step"] * 3


def test_newcomers_that_are_elsewhere_end_and_the_others_recover() -> None:
    assert outcomes(NEXT, NEW, NEXT, NEW) == ["recovers", "ends", "recovers", "ends"]


def test_a_newcomer_that_is_where_the_others_are_goes_on() -> None:
    late = Here(NEXT.place, entered_inside=True)
    assert outcomes(NEXT, late, NEW) == ["recovers", "recovers", "ends"]


def test_members_that_began_together_all_end() -> None:
    assert outcomes(NEXT, Here(), NEXT) == ["ends"] * 3


def test_after_a_restart_inside_a_loop_the_leader_is_right() -> None:
    elsewhere = Here(NEXT.place, entered_inside=True)
    assert outcomes(NEW, NEW, elsewhere) == ["recovers", "recovers", "ends"]


def test_a_newcomer_that_leaves_first_is_the_one_to_end() -> None:
    """It began the next loop itself, but has never been in step with the others there."""
    old, new = Whereabouts(WRITE), Whereabouts(WRITE)
    assert outcomes(Here(), NEW, since=(old, new)) == ["step", "step"]
    assert outcomes(Here(), NEXT, since=(old, new)) == ["recovers", "ends"]


def test_a_newcomer_is_one_of_the_old_from_the_first_loop_that_it_began_with_them() -> None:
    old, new = Whereabouts(WRITE), Whereabouts(WRITE)
    assert outcomes(Here(), NEW, since=(old, new)) == ["step", "step"]
    assert outcomes(NEXT, NEXT, since=(old, new)) == ["step", "step"]
    assert outcomes(NEXT, Here("data 2 0 0 640"), since=(old, new)) == ["ends", "ends"]


@pytest.mark.parametrize("place", ["data 0 0 1 640", "data 0 1 0 640", "data 0 0 0 644", "other 0 0 0 640"])
def test_pass_loop_position_and_loader_count_as_well(place: str) -> None:
    assert outcomes(Here(), Here(place)) == ["ends", "ends"]
