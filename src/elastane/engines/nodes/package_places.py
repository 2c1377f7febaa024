"""Says where the code of a job lies on the head and on a node, and which paths have to be replaced for that."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from elastane.engines.contract import Code, Package, Shared
from elastane.engines.nodes.package_archive import is_digest
from elastane.engines.nodes.package_store import PACKAGES, UNPACKED
from elastane.engines.nodes.package_tree import PackageError


def code_to_json(code: Code) -> dict[str, Any]:
    """The code of a job as JSON values, for its launch and for the store."""
    match code:
        case Shared(path):
            return {"shared": path}
        case Package(digest, subdirectory, top):
            return {"package": digest, "subdirectory": subdirectory, "top": top}


def code_from_json(values: Mapping[str, Any] | None, directory: str = "") -> Code:
    """The inverse of ``code_to_json``; what says nothing of a package is shared, at ``directory`` unless it says where.

    Raises:
        PackageError: the package has no digest, or its subdirectory leads out of it.
    """
    values = values or {}
    if "package" not in values:
        return Shared(str(values.get("shared") or directory))
    return package(str(values["package"]), str(values.get("subdirectory", "")), str(values.get("top", "")))


def package(digest: str, subdirectory: str = "", top: str = "") -> Package:
    """A package with what was checked: its digest is one, and its subdirectory stays inside.

    Raises:
        PackageError: one of them is not.
    """
    if not is_digest(digest):
        raise PackageError(f"{digest[:80]!a} is no digest of a package")
    inner = PurePosixPath(subdirectory)
    if inner.is_absolute() or ".." in inner.parts or "\0" in subdirectory:
        raise PackageError(f"the directory {subdirectory[:80]!a} leads out of the package")
    return Package(digest, "" if str(inner) == "." else str(inner), top)


def directory_on_head(home: Path, code: Package) -> str:
    """The directory of a job of this package, in the copy below the home of its head."""
    return str(home / PACKAGES / UNPACKED / code.digest / code.subdirectory)


def in_copy(code: Package, home: Path, text: str) -> str:
    """A path in the directory that was packed, as one in the copy on the head if the package has it.

    Others stay as they are, and so does what was left out of the package (data, say).
    """
    top = code.top.rstrip("/")
    if not top or not (text == top or text.startswith(f"{top}/")):
        return text
    found = home / PACKAGES / UNPACKED / code.digest / text[len(top) :].lstrip("/")
    return str(found) if found.exists() else text


def command_in_copy(code: Package, home: Path, command: Sequence[str]) -> tuple[str, ...]:
    """The command of a job with what it names of its own directory taken from the package."""
    return tuple(in_copy(code, home, word) for word in command)


def variables_in_copy(code: Package, home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a job, with folders of its modules (``PYTHONPATH``) taken from the package."""
    folders = variables.get("PYTHONPATH")
    if folders is None:
        return dict(variables)
    here = os.pathsep.join(in_copy(code, home, each) for each in folders.split(os.pathsep))
    return {**variables, "PYTHONPATH": here}


def package_relocations(code: Package, directory: str, copy: Path) -> tuple[tuple[str, str], ...]:
    """Pairs (prefix on the head, prefix on the node) for a job whose package is unpacked at ``copy`` on the node.

    ``directory`` is that of its launch: the package's copy on the head, with the subdirectory behind.  What its
    command names by the path that the directory has at its owner's is found in the copy as well.
    """
    head = Path(directory)
    for _ in PurePosixPath(code.subdirectory).parts:
        head = head.parent
    prefixes = dict.fromkeys([str(head), str(head.resolve()), *filter(None, [code.top])])
    return tuple((prefix, str(copy)) for prefix in prefixes if prefix not in ("", "/"))
