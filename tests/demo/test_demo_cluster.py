"""``elastane demo --cluster`` as people use it: hosts in a box that fail and come, and nothing left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elastane.testing.hosts import why_not

PATIENCE_S = 500.0


def on_hosts(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """Marks a test that needs hosts in a box."""
    for mark in (
        pytest.mark.slow,
        pytest.mark.hosts,
        pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
    ):
        test = mark(test)
    return test


def demo(folder: Path, *options: str) -> subprocess.Popen[str]:
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "elastane", "demo", "--cluster", *options],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(folder: Path) -> list[str]:
    """The demo's folders, and processes that were started for it; caches of PyTorch's stay."""
    mark = f"ELASTANE_HOME={folder}/tmp/".encode()
    found = [path.name for path in (folder / "tmp").glob("elastane*")]
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


@on_hosts
def test_jobs_go_on_while_hosts_fail_and_come(tmp_path: Path) -> None:
    process = demo(tmp_path, "--json")
    out, story = process.communicate(timeout=PATIENCE_S)
    told = json.loads(out)
    assert [deed["what"] for deed in told["deeds"]][:3] == ["killed", "added", "cable pulled"], story
    assert all(deed["noticed_s"] is not None for deed in told["deeds"][:3])
    assert len(told["jobs"]) == 3
    assert told["cleaned"]["processes_left"] == 0
    assert left(tmp_path) == []
    assert process.returncode == (0 if told["succeeded"] else 1)


@on_hosts
def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    process = demo(tmp_path)
    assert process.stdout is not None
    while "arrives" not in (line := process.stdout.readline()):
        assert line, process.communicate()
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode != 0
    assert left(tmp_path) == []


def test_where_there_can_be_no_hosts_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from elastane.demo.cluster_stage import ClusterStage
    from elastane.errors import ElastaneError

    monkeypatch.setattr("elastane.demo.cluster_stage.why_not", lambda: "hosts in a box need root: sudo")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ElastaneError, match="demo --cluster: hosts in a box need root"):
        ClusterStage()
    assert list(tmp_path.iterdir()) == []
