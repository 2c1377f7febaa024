"""A job on two hosts survives what happens to cables; hosts are network namespaces here, which only root can make."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PATIENCE_S = 400.0


@cache
def lacking() -> str:
    """Why there can be no hosts here, if so."""
    missing = [word for word in ("unshare", "nsenter", "ip") if shutil.which(word) is None]
    if missing:
        return f"{missing[0]} is not installed"
    tried = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0"],
        capture_output=True,
    )
    return (
        "" if tried.returncode == 0 else "network namespaces with veth pairs are not allowed here (root only)"
    )


@pytest.mark.slow
@pytest.mark.hosts
def test_cuts_short_and_long_and_the_death_of_a_host_cost_what_they_should(tmp_path: Path) -> None:
    if lacking():
        pytest.skip(lacking())
    places = os.pathsep.join([str(ROOT / "tests"), str(ROOT)])
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-m", "engines.nodes.two_hosts", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": places},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all is well" in done.stdout
