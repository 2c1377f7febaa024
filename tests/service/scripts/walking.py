"""Walks the whole file system, as whoever runs it, and tells what it could open of those it is told of.

``walking.py TOLD SECONDS``: TOLD names the home, other tenants' users, inodes that the service has open, the names of
its sockets, and secrets, which are looked for in every file that was changed since the service was started and in all
command lines.  Nothing is followed; ``/proc`` is looked through by ``prying.py``.
"""

import contextlib
import json
import os
import socket
import stat
import sys
import time
from pathlib import Path

_SKIPPED = ("/proc", "/sys")
_FIRST = ("/tmp", "/dev/shm", "/var", "/run", "/home", "/root", "/etc", "/dev")
_MOST_READ = 1 << 20


def opened(path: str) -> bool:
    for flags in (os.O_RDONLY, os.O_WRONLY):
        with contextlib.suppress(OSError):
            os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY))
            return True
    return False


def connected(path: str) -> bool:
    """Whether somebody listens at a socket, and takes us."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as line:
        line.settimeout(1.0)
        line.connect("\0" + path[1:] if path.startswith("@") else path)
        return True
    return False


def content(path: str) -> bytes:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return os.read(fd, _MOST_READ)
        finally:
            os.close(fd)
    return b""


class Walk:
    """Of everything that there is, as far as the time goes."""

    def __init__(self, told: dict, until_s: float) -> None:
        self.told, self.until_s = told, until_s
        self.others, self.inodes = set(told["users"]), {tuple(each) for each in told["inodes"]}
        self.own = {os.environ["ELASTANE_RUN"], os.environ["HOME"], sys.argv[1]}
        self.secrets = [each.encode() for each in told["secrets"]]
        self.seen = self.folders = 0
        self.theirs: list = []
        self.telling: list = []

    def run(self) -> bool:
        """Whether there was time for all of it."""
        waiting = ["/", *reversed(_FIRST)]
        done = set()
        while waiting and time.monotonic() < self.until_s:
            folder = waiting.pop()
            if folder in done or folder in _SKIPPED or folder in self.own:
                continue
            done.add(folder)
            with contextlib.suppress(OSError):
                for entry in os.scandir(folder):
                    self.seen += 1
                    with contextlib.suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            waiting.insert(0, entry.path) if folder == "/" else waiting.append(entry.path)
                        if entry.path not in self.own:
                            self.look_at(entry.path, entry.stat(follow_symlinks=False))
        return not waiting

    def look_at(self, path: str, facts: os.stat_result) -> None:
        """Try to open what is somebody else's; read what is new."""
        if stat.S_ISLNK(facts.st_mode):
            return
        below = path == self.told["home"] or path.startswith(self.told["home"] + "/")
        passage = below and stat.S_ISDIR(facts.st_mode) and not os.access(path, os.R_OK | os.W_OK)
        known = (facts.st_dev, facts.st_ino) in self.inodes or facts.st_uid in self.others
        if (known or below) and not passage:
            reached = connected(path) if stat.S_ISSOCK(facts.st_mode) else opened(path)
            if reached:
                self.theirs.append(path)
        if stat.S_ISREG(facts.st_mode) and facts.st_ctime >= self.told["since_s"] and self.tells(content(path)):
            self.telling.append(path)

    def tells(self, text: bytes) -> bool:
        return any(secret in text for secret in self.secrets)

    def command_lines(self) -> list:
        return [
            entry.path
            for entry in os.scandir("/proc")
            if entry.name.isdigit() and self.tells(content(f"{entry.path}/cmdline"))
        ]


def main() -> None:
    path = Path(sys.argv[1])
    while not path.exists():
        time.sleep(0.05)
    walk = Walk(json.loads(path.read_text()), time.monotonic() + float(sys.argv[2]))
    whole = walk.run()
    answer = {
        "seen": walk.seen,
        "whole": whole,
        "theirs": sorted(walk.theirs),
        "telling": sorted(walk.telling),
        "command_lines": walk.command_lines(),
        "sockets": [name for name in walk.told["sockets"] if connected(name)],
    }
    print(json.dumps(answer), flush=True)


main()
