"""Tokens: how they are made, written and checked.  ``els_<id>_<secret>``; the id finds it, the secret proves it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field

_FORM = re.compile(r"els_([0-9a-f]{12})_([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Parts:
    """A token taken apart; its secret stays out of tracebacks and logs."""

    id: str
    secret: str = field(repr=False)


def make() -> Parts:
    """A new token with 256 random bits."""
    return Parts(secrets.token_hex(6), secrets.token_hex(32))


def join(parts: Parts) -> str:
    """The token as its owner sees it."""
    return f"els_{parts.id}_{parts.secret}"


def split(token: object) -> Parts | None:
    """The parts of a token; None for anything that is not one."""
    match = _FORM.fullmatch(token) if isinstance(token, str) else None
    return Parts(match[1], match[2]) if match else None


def digest(parts: Parts) -> bytes:
    """The digest of a token's secret, which is all that is stored."""
    # One fast hash is enough: slow, salted ones protect passwords that people think up and others can guess,
    # and nobody can try 2**256 secrets.  It is computed for every request.
    return hashlib.sha256(parts.secret.encode()).digest()


def matches(parts: Parts, stored: bytes) -> bool:
    """Whether a secret is the one that was stored, in the same time for every wrong one."""
    return hmac.compare_digest(digest(parts), stored)
