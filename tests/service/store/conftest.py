from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.service.store import Store
from service.store.samples import opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "elastane.db"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    """New and ours to write."""
    with opened(path) as store:
        store.claim()
        yield store
