"""Names a service's home by a digest, which processes of jobs may know where they must not learn the path."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def name_of(home: Path) -> str:
    """Returns what a home is called in marks: a job that reads its own does not learn where the service lives."""
    return hashlib.sha256(os.fsencode(home.resolve())).hexdigest()[:16]
