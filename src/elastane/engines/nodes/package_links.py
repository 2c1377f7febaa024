"""Follows symbolic links of a package on paper, so that none of them leads out of the folder it is unpacked into."""

from __future__ import annotations

from collections.abc import Mapping

_MOST_STEPS = 512
_MOST_LINKS = 40
"""As many as the kernel follows on one path."""


def stays_inside(path: str, links: Mapping[str, str]) -> bool:
    """Whether a path of the package, followed through all ``links`` (path: target), ends inside of it.

    A target such as ``a/..`` may mean another place than its words say where ``a`` is a link itself, so every part
    is followed in turn.  A path that cannot be followed to an end does not stay inside.
    """
    place: list[str] = []
    ahead = list(reversed(path.split("/")))
    steps = followed = 0
    while ahead:
        steps += 1
        part = ahead.pop()
        if steps > _MOST_STEPS:
            return False
        if part in ("", "."):
            continue
        if part == "..":
            if not place:
                return False
            place.pop()
            continue
        target = links.get("/".join([*place, part]))
        if target is None:
            place.append(part)
            continue
        followed += 1
        if followed > _MOST_LINKS or not target or target.startswith("/") or "\0" in target:
            return False
        ahead += reversed(target.split("/"))
    return True


def leading_out(links: Mapping[str, str]) -> list[str]:
    """Those of the links that lead out of the package, sorted."""
    return sorted(path for path in links if not stays_inside(path, links))
