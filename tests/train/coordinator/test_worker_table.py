"""What workers tell of themselves is a job's own words: it is checked before anybody counts with it."""

from __future__ import annotations

from typing import Any

import pytest

from elastane.train.coordinator.worker_table import virtual_ranks


@pytest.mark.parametrize(
    ("signature", "ranks"),
    [({}, 0), ({"settings": {}}, 0), ({"settings": {"virtual": None}}, 0), ({"settings": {"virtual": 8}}, 8)],
)
def test_the_number_of_virtual_ranks_is_read(signature: dict[str, Any], ranks: int) -> None:
    assert virtual_ranks(signature) == ranks


@pytest.mark.parametrize(
    "signature",
    [
        {"settings": []},
        {"settings": 5},
        {"settings": {"virtual": 0.5}},
        {"settings": {"virtual": -1}},
        {"settings": {"virtual": "8"}},
        {"parameters": 5},
    ],
)
def test_nonsense_is_refused(signature: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no number|are none"):
        virtual_ranks(signature)
