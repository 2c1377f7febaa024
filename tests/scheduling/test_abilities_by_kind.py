"""The table of kinds is complete, and says what its docstring says."""

from __future__ import annotations

import elastane.scheduling.abilities_by_kind as module
from elastane.jobs.kinds import ONE_SIZE, Kind
from elastane.policies.view import Ability
from elastane.scheduling.abilities_by_kind import ABILITIES


def test_every_kind_but_the_undecided_one_has_a_row():
    assert set(ABILITIES) == set(Kind) - {Kind.AUTO}


def test_the_documented_table_is_the_real_one():
    columns = [Ability.SUSPEND, Ability.MIGRATE, Ability.RESIZE, Ability.REBATCH]
    rows = [
        line.strip("| ").split(" | ") for line in (module.__doc__ or "").splitlines() if line.startswith("| ")
    ]
    written = {
        Kind(row[0]): [cell.startswith("yes") for cell in row[1:]] for row in rows if row[0] in set(Kind)
    }
    assert written == {kind: [flag in able for flag in columns] for kind, able in ABILITIES.items()}


def test_kinds_of_one_size_are_those_that_cannot_be_resized():
    assert {Kind.RIGID, Kind.COMMAND} == ONE_SIZE


def test_jobs_of_one_size_are_those_that_cannot_be_resized() -> None:
    assert {kind for kind, abilities in ABILITIES.items() if Ability.RESIZE not in abilities} == ONE_SIZE
