"""A live system whose jobs run as other users: made as root, in places that others can reach, and removed again."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from elastane import Client
from elastane.engines.local.job_users import closed_to_others
from elastane.kit.home_names import name_of

PATIENCE_S = 120.0
SYSTEM_PYTHON = Path("/usr/bin/python3")


class Apart:
    """One home, its command line, and a client for each token."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.home, self.python = folder, folder / "home", python
        self.tag = folder.name.rpartition("-")[2].lower()
        self.work = folder / "work"
        self.work.mkdir()
        self.work.chmod(0o777)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), "-m", "elastane", *words],
            env={**os.environ, "ELASTANE_HOME": str(self.home)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def up(self, *words: str) -> str:
        done = self.run("up", "--detach", "--slots=4", "--interval=1", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def client(self, token: str = "") -> Client:
        found = token or (self.home / "token").read_text().strip()
        return Client((self.home / "url").read_text().strip(), found)

    def tenant(self, name: str) -> str:
        """One whose user nobody else on this machine makes at the same time."""
        return f"{name}{self.tag}"

    def user(self, name: str, tenant: str) -> Client:
        """Somebody who may submit jobs of a tenant."""
        for words in (["user", "add", name, "--tenant", self.tenant(tenant)], ["token", "new", name, "--json"]):
            done = self.run(*words)
            assert done.returncode == 0, done.stderr
        return self.client(json.loads(done.stdout)["token"])

    def submit(self, who: Client, command: Sequence[str], **more: Any) -> str:
        given = {"command": list(command), **more}
        return who.submit(given, directory=str(self.work)).id

    def log(self, who: Client, job: str) -> str:
        return (self.home / "jobs" / job / "run" / "logs" / "w1.log").read_text()


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _python(folder: Path) -> Path:
    """An interpreter that other users may run and that has what this one has."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("needs root and useradd")
    places = [Path(place) for place in sys.path if place and Path(place).is_dir()]
    ours = Path(sys.executable)
    if not any(map(closed_to_others, (ours, *places))):
        return ours
    found = [place for place in places if place.name in ("site-packages", "src")]
    version = subprocess.run([SYSTEM_PYTHON, "-V"], capture_output=True, text=True).stdout.split()[-1:]
    same = version and version[0].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    if not same or any(map(closed_to_others, (SYSTEM_PYTHON, *found))):
        pytest.skip("no interpreter that other users may run")
    made = folder / "venv"
    subprocess.run([SYSTEM_PYTHON, "-m", "venv", "--without-pip", made], check=True)
    lines = "\n".join(map(str, found)) + "\n"
    next(made.glob("lib/python*/site-packages")).joinpath("others.pth").write_text(lines)
    return made / "bin" / "python"


@contextlib.contextmanager
def apart() -> Iterator[Apart]:
    """A place for one system; whatever it started or made is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="elastane-apart-"))
    folder.chmod(0o755)
    home = folder / "home"
    try:
        yield Apart(folder, _python(folder))
    finally:
        if (home / "url").exists():
            subprocess.run(
                [sys.executable, "-m", "elastane", "down", f"--home={home}"], timeout=PATIENCE_S, check=False
            )
        for entry in pwd.getpwall():
            if entry.pw_gecos == f"Elastane {name_of(home)}":
                until(lambda name=entry.pw_name: not subprocess.run(["userdel", name], check=False).returncode)  # type: ignore[misc]
        shutil.rmtree(folder)
