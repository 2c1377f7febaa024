"""Files of predictions that are no such files: one line, never a stack trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.predict.outcomes import load_outcomes
from elastane.predict.probes import load_probes
from elastane.predict.profile import load_profile

SPOILED = [b"[" * 200_000, b"9" * 5000, b"\xff\xfe", b"", b"null", b"{"]


@pytest.mark.parametrize("content", SPOILED, ids=range(len(SPOILED)))
def test_a_spoiled_file_is_one_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    for load in (load_profile, load_probes):
        with pytest.raises(ElastaneError):
            load(path)
    assert load_outcomes(path) == ()


def test_a_directory_is_no_profile(tmp_path: Path) -> None:
    with pytest.raises(ElastaneError, match="directory"):
        load_profile(tmp_path)
