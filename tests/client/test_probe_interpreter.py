"""An interpreter is asked what it has; whatever answers, or does not, costs a bounded time."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from elastane import __version__
from elastane.client.probe_interpreter import probe


def program(path: Path, *lines: str) -> str:
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(0o755)
    return str(path)


def test_our_own_has_us(tmp_path: Path) -> None:
    found = probe(sys.executable, os.environ, tmp_path)
    assert (found.elastane, found.torch, found.problem) == (__version__, True, "")


def test_modules_that_lie_about_where_it_is_asked_are_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()
    found = probe(sys.executable, {"PATH": "/bin", "PYTHONPATH": ""}, tmp_path)
    assert found.elastane == __version__


def test_one_that_hangs_is_ended_with_all_it_has_started(tmp_path: Path) -> None:
    slow = program(
        tmp_path / "python", f"sleep 600 & echo $! > {tmp_path}/pid; echo started > {tmp_path}/up; wait"
    )
    found = probe(slow, os.environ, tmp_path, patience_s=2.0)
    assert found.problem == "it did not answer within 2 s"
    if (tmp_path / "up").exists():  # it had time to
        deadline = time.monotonic() + 60.0
        child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
        while _alive(child):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _alive(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_anything_else_is_no_python(tmp_path: Path) -> None:
    assert probe(program(tmp_path / "a", "echo hello"), os.environ, tmp_path).problem
    assert probe(program(tmp_path / "b", "exit 1"), os.environ, tmp_path).problem
    assert probe(program(tmp_path / "c", "echo '[1]'"), os.environ, tmp_path).problem
    assert "no such file" in probe(str(tmp_path / "d"), os.environ, tmp_path).problem
