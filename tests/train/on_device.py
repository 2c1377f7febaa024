"""Runs training scripts for real on pretend GPUs: what makes a Python process have some."""

from __future__ import annotations

import os
from pathlib import Path

from fakegpu import build
from fakegpu.lacking import without

_TESTS = Path(__file__).parent.parent
_SITE = """
from fakegpu.torch_device import install
install().policy({policy!r}, 0)
"""


def pretend_gpus(folder: Path, policy: str = "late", **settings: str) -> dict[str, str]:
    """Variables under which every Python process has pretend GPUs; skips the test where they cannot be built."""
    try:
        build.extension()
    except build.CannotBuild as reason:
        without(reason)
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(_SITE.format(policy=policy))
    before = os.environ.get("PYTHONPATH")
    path = [str(site), str(_TESTS), *([before] if before else [])]
    return {"PYTHONPATH": ":".join(path), "FAKEGPU_COUNT": "4", **settings}
