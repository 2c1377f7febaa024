"""A machine without a compiler skips tests of devices; CI fails them."""

from __future__ import annotations

import shutil

import pytest

from fakegpu import build
from fakegpu.lacking import without


@pytest.mark.parametrize(("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)])
def test_a_missing_compiler_is_noticed_in_ci(
    ci: str, outcome: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(build.CannotBuild) as reason:
        build.extension()
    with pytest.raises(outcome, match=r"no g\+\+ here"):
        without(reason.value)
