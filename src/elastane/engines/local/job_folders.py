"""The folder of a job is its own, so it may put anything in its place; an attempt begins only in real folders.

Through a link the service would make folders and write logs wherever the job likes, and tell it that place as its own.
Where jobs run as somebody else, the folder is that user's, closed to all others; what an earlier user left is handed
over.
"""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
from pathlib import Path

from elastane.train.coordinator.job_user import Identity
from elastane.train.errors import TrainError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ANY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LOOK = 'cd "$1" 2>/dev/null || exit 3; [ -z "$2" ] || [ -r "$2" ] || exit 4; [ -x "$3" ] || exit 5'
_LOOK_S = 20.0


def make_folders(run: Path, identity: Identity | None = None) -> None:
    """Make what is missing of a job's folders, and make them the job's.

    Raises:
        TrainError: something else stands in the place of one.
    """
    for folder in (run.parent, run, run / "logs"):
        try:
            folder.mkdir(
                mode=0o711 if folder == run.parent else 0o700, parents=folder == run.parent, exist_ok=True
            )
        except OSError as error:
            raise TrainError(f"the job's folder {folder} cannot be made: {error.strerror}") from None
        if folder.is_symlink():
            raise TrainError(f"the job's folder {folder} is a link; it must be a folder, as it was made")
    if identity is not None:
        try:
            for folder in (run.parent.parent, run.parent):
                folder.chmod(0o711)
            hand_over(run, identity)
        except OSError as error:
            raise TrainError(f"the job's folder {run} cannot be given to {identity.name}: {error}") from None


def hand_over(folder: Path, identity: Identity) -> None:
    """Give a folder, and what its last owner had in it, to a user; nothing is reached through a link."""
    top = os.open(folder, _FOLDER)
    try:
        before = os.fstat(top).st_uid
        if before != identity.uid:
            _hand_over_below(top, before, identity)
        logs = os.open("logs", _FOLDER, dir_fd=top)  # made by us just now, perhaps
        try:
            os.fchown(logs, identity.uid, identity.gid)
        finally:
            os.close(logs)
        os.fchown(top, identity.uid, identity.gid)
        os.fchmod(top, 0o700)
    finally:
        os.close(top)


def _hand_over_below(folder: int, before: int, identity: Identity) -> None:
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            fd = os.open(name, _ANY, dir_fd=folder)
            try:
                facts = os.fstat(fd)
                inner = stat.S_ISDIR(facts.st_mode)
                # A file with a second name may be anybody's.
                if facts.st_uid != before or not (
                    inner or (stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1)
                ):
                    continue
                if inner:
                    _hand_over_below(fd, before, identity)
                os.fchown(fd, identity.uid, identity.gid)
            finally:
                os.close(fd)


def out_of_reach(identity: Identity, directory: str, script: str, program: str) -> str:
    """Which of these a user may not enter, read or run, in one line; empty if it may."""
    words = ["/bin/sh", "-c", _LOOK, "sh", directory, script, program]
    try:
        looked = subprocess.run(  # noqa: S603
            words,
            user=identity.uid,
            group=identity.gid,
            extra_groups=identity.groups,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LOOK_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"nothing can be run as user {identity.name}: {error}"
    what = {
        3: f"enter the directory {directory}",
        4: f"read the script {script}",
        5: f"run {program}",
    }.get(looked.returncode)
    return f"user {identity.name} may not {what}" if what else ""
