"""Writes ``constraints.txt``: the exact version of everything that ``pip install '.[dev]'`` brings, as installed here.

``make constraints`` runs it in a fresh environment, so the file says what a fresh installation gets today.  Versions
are pinned for every supported Python: what another Python does not need is a constraint without effect.  Packages
that only some builds of PyTorch bring (its CUDA libraries) are pinned by PyTorch itself.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "constraints.txt"
PACKED = ("dev", "torch")
"""Extras whose packages are installed by ``make install``."""
HEAD = """\
# Every package that 'make install' installs, in the version it was tested with.
# Written by 'make constraints'; not by hand.
"""


def main() -> None:
    """Write the file, and say what became of it."""
    pins = closure(direct())
    TARGET.write_text(HEAD + "".join(f"{name}=={pins[name]}\n" for name in sorted(pins)), encoding="utf-8")
    sys.stdout.write(f"{len(pins)} packages in {TARGET.name}\n")


def direct() -> list[Requirement]:
    """What ``pyproject.toml`` asks for by name, for use and for development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [
        Requirement(line)
        for line in project["dependencies"] + [each for extra in PACKED for each in extras[extra]]
    ]


def closure(wanted: Iterable[Requirement]) -> dict[str, Version]:
    """The installed versions of these and of all they need."""
    found: dict[str, Version] = {}
    open_ends, seen = list(wanted), set[tuple[str, str]]()
    while open_ends:
        each = open_ends.pop()
        for extra in ("", *each.extras):
            name = canonicalize_name(each.name)
            if (name, extra) not in seen and _applies(each, ""):
                seen.add((name, extra))
                package = _installed(each)
                # A build of its own (2.13.0+cpu) is for this machine; the release is for all.
                found[name] = Version(Version(package.version).public)
                needed = (Requirement(line) for line in package.requires or ())
                open_ends += [
                    Requirement(str(need).partition(";")[0]) for need in needed if _applies(need, extra)
                ]
    return found


def _applies(need: Requirement, extra: str) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": extra})


def _installed(need: Requirement) -> Distribution:
    try:
        return distribution(need.name)
    except PackageNotFoundError:
        sys.exit(f"{need.name} is not installed here; run 'make constraints'")


if __name__ == "__main__":
    main()
