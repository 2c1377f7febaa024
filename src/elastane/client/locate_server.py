"""Finds the server and the token: from arguments, else the environment, else the files of its home.

The home's token is the admin's.  A job never takes it unasked, also where its user could read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from elastane.client.errors import ClientError, NotRunning
from elastane.kit.home_names import name_of

_MARK, _JOB = "ELASTANE_MARK", "ELASTANE_JOB"
"""Variables that processes of a live job have, and nothing else; the first begins with a digest of its home."""


@dataclass(frozen=True, slots=True)
class Address:
    """A URL without a slash at its end, and a token (None: asked without one)."""

    url: str
    token: str | None = field(repr=False)

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine, where no proxy has any business."""
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")


def find(url: str | None, token: str | None, environment: Mapping[str, str] = os.environ) -> Address:
    """The address.

    Raises:
        NotRunning: nothing says where.
        ClientError: it is no URL, or a job would have been given the admin's token.
    """
    home = Path(environment.get("ELASTANE_HOME") or Path.home() / ".elastane")
    asked = url or environment.get("ELASTANE_URL")
    found = asked or _line(home / "url")
    if not found:
        raise NotRunning(
            f"no Elastane is running from {home}; start one with 'elastane up', or set $ELASTANE_URL"
        )
    # The token in our home is for the service of that home: another URL must not be told it.
    own = None if asked and asked.rstrip("/") != _line(home / "url") else _line(home / "token")
    given = token or environment.get("ELASTANE_TOKEN")
    if own and not given and _is_in_a_job_of(home, environment):
        raise ClientError(
            f"this is a job, which is not given the admin's token of {home}: pass a token of its own, "
            "Client(token=...) or ELASTANE_TOKEN in env: (elastane token new makes one)"
        )
    return Address(_checked(found), given or own)


def _is_in_a_job_of(home: Path, environment: Mapping[str, str]) -> bool:
    """Whether this is a job, and perhaps that home's; a job may have an Elastane of its own elsewhere."""
    mark = environment.get(_MARK)
    if mark is None or not environment.get("ELASTANE_HOME"):
        return mark is not None or _JOB in environment
    return mark.partition("|")[0] == name_of(home)


def _line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip().rstrip("/") or None
    except (OSError, UnicodeDecodeError):
        return None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
        _ = parts.port
    except ValueError:
        good = False
    if not good:
        raise ClientError(f"url: {url!r} is not a URL; it looks like http://127.0.0.1:7070")
    return url.rstrip("/")
