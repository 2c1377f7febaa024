"""Who cannot have hosts in a box is told why, in one sentence."""

from __future__ import annotations

import shutil

import pytest

from elastane.testing.hosts import box


def test_a_command_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "ip" else f"/bin/{name}")
    assert "'ip'" in box.why_not.__wrapped__()


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "need root" in box.why_not.__wrapped__()
