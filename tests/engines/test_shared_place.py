"""A folder is shared if every node reads what was just written there; who does not is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.engines.shared_place import blind_nodes, needs_probe, refusal, shared_by_all


def sees(path: Path) -> str:
    return path.read_text() + "\n"


def test_all_that_read_the_same_share_it_and_nothing_is_left(tmp_path: Path) -> None:
    assert shared_by_all(tmp_path / "new", lambda path: {"n0": sees(path), "n1": sees(path)})
    assert list((tmp_path / "new").iterdir()) == []
    assert shared_by_all(tmp_path, lambda _path: {})


def test_who_sees_nothing_or_something_else_is_named(tmp_path: Path) -> None:
    blind = blind_nodes(tmp_path, lambda path: {"n2": "", "n0": sees(path), "n1": "0" * 32})
    assert blind == ("n1", "n2")
    assert not shared_by_all(tmp_path, lambda _path: {"n0": ""})
    assert refusal(tmp_path, blind).startswith(
        f"there are several machines and no place for checkpoints that all of them reach: "
        f"n1, n2 do not see {tmp_path}; say where with 'elastane up --checkpoints URL'"
    )
    assert "n0, n1, n2 and 2 others do not" in refusal(tmp_path, tuple(f"n{i}" for i in range(5)))
    assert "n0 does not see" in refusal(tmp_path, ("n0",))
    assert refusal(tmp_path, ()) == ""


def test_what_is_asked_for_is_new_each_time_and_goes_when_asking_fails(tmp_path: Path) -> None:
    asked: list[Path] = []

    def breaks(path: Path) -> dict[str, str]:
        asked.append(path)
        raise ConnectionError

    for _ in range(2):
        with pytest.raises(ConnectionError):
            shared_by_all(tmp_path, breaks)
    assert asked[0] != asked[1]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_to_is_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        shared_by_all(tmp_path / "file", lambda _path: {})


@pytest.mark.parametrize(
    ("place", "folder"),
    [("", None), ("s3://bucket/x", None), ("/mnt/x", Path("/mnt/x")), ("file:///mnt/x", Path("/mnt/x"))],
)
def test_only_folders_are_looked_for(place: str, folder: Path | None) -> None:
    assert needs_probe(place) == folder
