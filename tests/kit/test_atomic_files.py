"""A file is there wholly or not at all, with the rights it should have, and no part of it is left behind."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from elastane.kit import atomic_files
from elastane.kit.atomic_files import replacing, write_atomically


@pytest.mark.parametrize("content", ["Grüße\n", b"\x00\xff"])
def test_the_content_takes_the_place_of_what_was_there(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "file"
    path.write_text("before, and longer than what comes")
    write_atomically(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def fail() -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_private_file_was_never_open_to_others(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("open")
    path.chmod(0o644)
    with replacing(path, private=True) as file:
        modes = {stat.S_IMODE(os.fstat(file.fileno()).st_mode)}
    assert modes | {stat.S_IMODE(path.stat().st_mode)} == {0o600}


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other, path = tmp_path / "other", tmp_path / "file"
    other.write_text("theirs")
    path.symlink_to(other)
    write_atomically(path, "ours")
    assert (other.read_text(), path.read_text(), path.is_symlink()) == ("theirs", "ours", False)


def test_a_durable_file_is_synced_before_it_has_its_name_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "file", []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))
        real(descriptor)

    monkeypatch.setattr(atomic_files.os, "fsync", fsync)
    write_atomically(path, "x")
    assert seen == []
    path.unlink()
    write_atomically(path, "x", durable=True)
    assert seen == [(False, False), (True, True)]


def test_writers_at_the_same_time_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [str(digit) * 100_000 for digit in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: write_atomically(path, contents[number % 4]), range(40)))
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]
