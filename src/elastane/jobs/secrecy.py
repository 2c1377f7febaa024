"""Tells by its name (and its value) whether a variable is likely to hold a secret."""

from __future__ import annotations

import re

_WORDS = frozenset(
    {
        *("TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PWD", "AUTH"),
        *("CREDENTIAL", "CREDENTIALS", "COOKIE", "APIKEY", "KEY", "KEYS", "PAT"),
    }
)
_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def looks_secret(name: str, value: str = "") -> bool:
    """Whether it should not be written down; the path of a file is no secret, whatever the file holds.

    >>> looks_secret("WANDB_API_KEY", "0123"), looks_secret("TOKENIZERS_PARALLELISM", "false")
    (True, False)
    """
    if _IN_URL.search(value):
        return True
    if value.startswith("/") or name in ("PWD", "OLDPWD"):
        return False
    return not _WORDS.isdisjoint(name.upper().split("_"))
