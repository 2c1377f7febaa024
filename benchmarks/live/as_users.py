"""A place where jobs can run as users of their own: reachable for others, made as root, and removed again."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.train.live import ROOT
from elastane.engines.local.job_users import closed_to_others
from elastane.kit.home_names import name_of

_SYSTEM_PYTHON = Path("/usr/bin/python3")


class NotHere(Exception):
    """Jobs cannot run as users of their own on this machine; the reason is the text."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that others may pass through, and an interpreter that they may run."""

    folder: Path
    python: str

    @property
    def home(self) -> Path:
        """Of the system that runs here."""
        return self.folder / "home"

    @property
    def tag(self) -> str:
        """Behind the names of tenants, so that no other run on this machine makes the same users."""
        return self.folder.name.rpartition("-")[2].lower()


@contextlib.contextmanager
def place() -> Iterator[Place]:
    """Use as a context: folder and users are gone afterwards.  Raises ``NotHere``."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        raise NotHere("it takes root and useradd")
    folder = Path(tempfile.mkdtemp(prefix="elastane-hostile-"))
    folder.chmod(0o755)
    try:
        made = Place(folder, _python(folder))
        yield made
    finally:
        for entry in pwd.getpwall():
            if entry.pw_gecos.split(",")[0] == f"Elastane {name_of(folder / 'home')}":
                subprocess.run(["userdel", entry.pw_name], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def _python(folder: Path) -> str:
    """This interpreter, or one that others may run and that has what this one has."""
    places = [Path(each) for each in sys.path if each and Path(each).is_dir()]
    if not any(map(closed_to_others, (Path(sys.executable), ROOT, *places))):
        return sys.executable
    found = [each for each in places if each.name in ("site-packages", "src")]
    said = subprocess.run([_SYSTEM_PYTHON, "-V"], capture_output=True, text=True, check=False).stdout
    same = said.split()[-1:] and said.split()[-1].split(".")[:2] == [str(part) for part in sys.version_info[:2]]
    if not same or any(map(closed_to_others, (_SYSTEM_PYTHON, ROOT, *found))):
        raise NotHere("no interpreter here may be run by other users")
    subprocess.run([_SYSTEM_PYTHON, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    packages = next((folder / "venv").glob("lib/python*/site-packages"))
    (packages / "others.pth").write_text("".join(f"{each}\n" for each in found))
    return str(folder / "venv" / "bin" / "python")
