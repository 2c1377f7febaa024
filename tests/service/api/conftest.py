"""A house per test."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.api.house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    """Five people, two jobs."""
    return House(tmp_path)
