"""The logs of a job: which there are, and where; nothing outside the job's own folder.

A worker's name is never used twice in a job, so its log is found by its name alone.  The plan log of the job tells
which workers belonged to which attempt, and who led it first.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from elastane.service.facade import NotFound
from elastane.service.messages import LogFile

_WORKER = re.compile(r"w[1-9][0-9]{0,6}")


def log_files(folder: Path) -> list[LogFile]:
    """Logs of all workers, oldest first."""
    attempts, leaders = _history(folder / "run" / "plans.jsonl")
    found = []
    for path in (folder / "run" / "logs").glob("w*.log"):
        name = path.stem
        if _WORKER.fullmatch(name) and not path.is_symlink():
            size = path.stat().st_size
            attempt = attempts.get(name, 1)
            found.append(LogFile(attempt=attempt, worker=name, bytes=size, leader=name in leaders))
    return sorted(found, key=lambda file: int(file.worker[1:]))


def log_path(folder: Path, attempt: int, worker: str) -> Path:
    """Where a worker's log lies."""
    known = {(file.attempt, file.worker) for file in log_files(folder)}
    if (attempt, worker) not in known:
        raise NotFound(f"there is no log of worker {worker} in attempt {attempt}")
    return folder / "run" / "logs" / f"{worker}.log"


def _history(path: Path) -> tuple[dict[str, int], set[str]]:
    """The attempt of each worker, and the first leader of each attempt."""
    attempts: dict[str, int] = {}
    leaders: dict[int, str] = {}
    attempt = 1
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        lines = []
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        match entry.get("type"):
            case "spawn":
                attempts[str(entry["worker"])] = attempt
                leaders.setdefault(attempt, str(entry["worker"]))
            case "plan" if entry["plan"].get("kind") == "start":
                leaders[attempt] = str(entry["plan"]["members"][0])
            case "finish":
                attempt += 1
    return attempts, set(leaders.values())
