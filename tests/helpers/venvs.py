"""Other interpreters for tests: environments made without a network, which find packages by a list of folders."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import elastane

OURS = str(Path(elastane.__file__).parents[1])
"""Where Elastane lies."""
EVERYTHING = (OURS, *(place for place in sys.path if place.endswith("-packages")))
"""That, and whatever is installed here."""


def make_venv(folder: Path, *places: str) -> str:
    """The path of the interpreter of a new environment that imports from these places only."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python3*/site-packages"))
    (packages / "places.pth").write_text("".join(f"{place}\n" for place in places))
    return str(folder / "bin" / "python")
