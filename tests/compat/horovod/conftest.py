"""A Horovod session of one worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import elastane.compat.horovod as hvd


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_THREADS", "RANK"):
        monkeypatch.delenv(name, raising=False)
    hvd.init()
    yield
    hvd.shutdown()
