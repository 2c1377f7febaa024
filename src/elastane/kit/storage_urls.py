"""Places that outlive a machine, written as an absolute path or a URL (``s3://bucket/prefix``): checked, joined, shown.

No URL may carry a password: it would be stored with a job, and told wherever the job is shown.  ``masked`` is for what
other libraries say of a URL that came some other way.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from elastane.errors import ElastaneError

VARIABLE = "ELASTANE_CHECKPOINTS"
"""In the environment of a job's processes: where its checkpoints lie, if that was said; empty is unsaid."""
JOB = "{job}"
"""In a place that a job names: stands for its id."""
SCHEMES = ("s3", "gs", "file")
"""What a job may name; each keeps what is written after the process that wrote it."""
EXPECTED = "a URL (s3://bucket/prefix, gs://bucket/prefix or file:///folder) or an absolute path"
WITHOUT_SECRETS = "a URL without a password: export the variables that its service reads, or set them in env"
_LONGEST = 2000
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s'\"]+@")
_SECRETS = re.compile(
    r"(?i)([?&;](?:[\w.-]*(?:key|token|secret|signature|sig|password|credential)[\w.-]*)=)[^&\s'\"]+"
)


def problem_of(place: str) -> str:
    """What was expected instead of this place; empty if it may be one."""
    if not place.isprintable() or not 0 < len(place) <= _LONGEST or ".." in re.split(r"[/\\]", place):
        return EXPECTED
    if "://" not in place:
        return "" if place.startswith("/") and place.strip("/") else EXPECTED
    try:
        parts = urlsplit(place)
    except ValueError:
        return EXPECTED
    if "@" in parts.netloc or parts.query or parts.fragment:
        return WITHOUT_SECRETS
    if parts.scheme not in SCHEMES or "::" in place:
        return EXPECTED
    whole = parts.path.strip("/") if parts.scheme == "file" else parts.netloc
    return "" if whole and (parts.scheme == "file") == (not parts.netloc) else EXPECTED


def checked(place: str, field: str) -> str:
    """The place, if it may be one.

    Raises:
        ElastaneError: it may not; the sentence names ``field``.
    """
    problem = problem_of(place)
    if problem:
        shown = masked(place) if len(place) < 200 else f"{masked(place)[:100]}…"
        raise ElastaneError(f"{field}: got {shown!r}; expected {problem}")
    return place


def joined(place: str, name: str) -> str:
    """A place of its own beneath another."""
    return f"{place.rstrip('/')}/{name}"


def local_path(place: str) -> Path | None:
    """The folder that a path or a ``file://`` URL names; None for a place on another machine."""
    if place.startswith("file://"):
        return Path(place.removeprefix("file://"))
    return Path(place) if "://" not in place else None


def same(one: str, other: str) -> bool:
    """Whether two places are written differently at most."""
    here, there = local_path(one), local_path(other)
    if here is not None and there is not None:
        return os.path.normpath(here) == os.path.normpath(there)
    return one.rstrip("/") == other.rstrip("/")


def masked(text: str) -> str:
    """A text in which no URL shows a user, a password or a key."""
    return _SECRETS.sub(r"\1…", _CREDENTIALS.sub("…@", text))
