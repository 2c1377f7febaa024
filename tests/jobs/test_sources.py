"""Files that a job names are read within bounds, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastane.jobs.interpreters import find_interpreter
from elastane.jobs.sources import MOST_BYTES, Unreadable, read_beginning, read_source


def test_a_script_is_read_as_it_is(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(b"print(1)\n")
    assert read_source(script) == b"print(1)\n"
    assert read_beginning(script, 5) == b"print"
    (tmp_path / "link").symlink_to(script)
    assert read_source(tmp_path / "link") == b"print(1)\n"


def test_pipes_devices_folders_and_files_of_the_kernel_are_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (
        tmp_path / "pipe",
        Path("/dev/zero"),
        tmp_path,
        Path("/proc/kmsg"),
        Path("/proc/self/environ"),
    ):
        with pytest.raises(Unreadable, match="not a regular file"):
            read_source(path)


def test_a_file_that_is_larger_than_scripts_are_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large.py"
    with large.open("wb") as file:
        file.truncate(20_000_000_000)
    with pytest.raises(Unreadable, match="larger than 1 MB"):
        read_source(large)
    assert len(read_beginning(large, 512)) == 512
    large.write_bytes(b"#" * MOST_BYTES)
    assert len(read_source(large)) == MOST_BYTES


def test_what_is_not_there_or_no_path_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="No such file"):
        read_source(tmp_path / "none.py")
    with pytest.raises(Unreadable, match="null"):
        read_source(Path("x\0y.py"))


def test_a_pipe_in_place_of_a_launcher_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "torchrun", 0o755)
    assert find_interpreter("./torchrun", tmp_path, {"PATH": "/nowhere"}) is None
    assert find_interpreter("torchrun", tmp_path, {"PATH": str(tmp_path)}) is None
