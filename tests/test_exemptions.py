"""Lists of exemptions in the tests of the house have a largest size, which may only be lowered."""

from __future__ import annotations

from collections.abc import Collection

import pytest

import test_architecture
import test_docs
import test_docstrings
import test_forbidden_calls
import test_no_silent_options

MOST: dict[str, tuple[Collection[object], int]] = {
    "long modules that are one idea": (test_architecture.ONE_IDEA, 6),
    "modules that hold the whole control plane": (test_architecture.HOLD_THE_WHOLE, 2),
    "rooms that may import everything": (test_architecture.DOORS, 3),
    "modules below every room": (test_architecture.GROUND, 7),
    "folders of tests that are of no room": (test_architecture.NOT_OF_A_ROOM, 2),
    "names in the architecture that are no modules": (test_docs.NO_MODULES, 1),
    "rooms with a docstring that has no subject": (test_docstrings.NOT_YET, 1),
    "files with a call that is forbidden elsewhere": (test_forbidden_calls.ALLOWED, 2),
    "fields that are read by another name": (test_no_silent_options._READ_AS, 7),
    "fields that stand in two places": (test_no_silent_options._SHARED, 3),
}
"""Each list, and how many it had when it was shortest.  A list that has become shorter takes its number with it."""


@pytest.mark.parametrize("name", MOST)
def test_a_list_of_exemptions_only_shrinks(name: str) -> None:
    exempt, most = MOST[name]
    assert len(exempt) <= most, f"{name}: mend what is new instead of adding it"


def test_how_many_of_a_room_are_exempt_only_shrinks() -> None:
    assert sum(test_docstrings.NOT_YET.values()) <= 1
    assert sum(map(len, test_forbidden_calls.ALLOWED.values())) <= 2
