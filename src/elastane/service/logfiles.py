"""The logs of a job: which there are, and where; nothing outside the job's own folder."""

from __future__ import annotations

import re
from pathlib import Path

from elastane.service.facade import NotFound
from elastane.service.messages import LogFile

_WORKER = re.compile(r"w[1-9][0-9]{0,6}")


def log_files(folder: Path) -> list[LogFile]:
    """Logs of all workers, oldest first; workers are never named twice, so they tell attempts apart."""
    found = []
    for path in (folder / "run" / "logs").glob("w*.log"):
        if _WORKER.fullmatch(path.stem):
            found.append(LogFile(attempt=0, worker=path.stem, bytes=path.stat().st_size))
    found.sort(key=lambda file: int(file.worker[1:]))
    return [file.model_copy(update={"leader": index == 0}) for index, file in enumerate(found)]


def log_path(folder: Path, attempt: int, worker: str) -> Path:
    """Where a worker's log lies."""
    path = folder / "run" / "logs" / f"{worker}.log"
    if attempt != 0 or not _WORKER.fullmatch(worker) or not path.is_file():
        raise NotFound(f"there is no log of worker {worker}")
    return path
