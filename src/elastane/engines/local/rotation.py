"""Keeps workers' logs from filling the disk: a long one is set aside, its worker goes on with an empty one.

Workers hold their log open for appending, so it is copied and cut, not renamed.  What a worker writes in the moment
between the two is lost; one older part is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

LONGEST_BYTES = 64 << 20


def rotate(folder: Path, longest_bytes: int = LONGEST_BYTES) -> list[Path]:
    """Set long logs aside as ``NAME.log.1``; returns which."""
    rotated = []
    for path in sorted(folder.glob("*.log")):
        with contextlib.suppress(OSError):
            if path.stat().st_size > longest_bytes:
                shutil.copyfile(path, path.with_name(f"{path.name}.1"))
                os.truncate(path, 0)
                rotated.append(path)
    return rotated
