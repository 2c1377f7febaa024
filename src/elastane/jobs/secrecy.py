"""Tells by its name (and its value) whether a variable is likely to hold a secret."""

from __future__ import annotations

import os
import re

_WORDS = frozenset({"PASS", "PWD", "AUTH", "COOKIE", "KEY", "KEYS", "PAT", "DSN"})
"""Whole words of a name, between underscores."""
_PARTS = re.compile(r"TOKEN(?!IZER)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|APIKEY|PASS$")
"""Parts of a name, wherever they stand."""
_IN_VALUE = re.compile(r"://[^/\s@]+@|(AccountKey|SharedAccessKey|Password|Pwd)=", re.IGNORECASE)
_PLACES = ("_FILE", "_PATH", "_DIR", "_HOME")


def looks_secret(name: str, value: str = "") -> bool:
    """Tell whether a variable should not be written down; the path of a file is no secret, whatever the file holds.

    >>> looks_secret("WANDB_API_KEY", "0123"), looks_secret("TOKENIZERS_PARALLELISM", "false")
    (True, False)
    """
    if _IN_VALUE.search(value):
        return True
    if name in ("PWD", "OLDPWD") or _is_place(name.upper(), value):
        return False
    return _PARTS.search(name.upper()) is not None or not _WORDS.isdisjoint(name.upper().split("_"))


def _is_place(name: str, value: str) -> bool:
    """Tell whether the value is the path of a file; a random key may begin like one."""
    if not value.startswith("/"):
        return False
    return name.endswith(_PLACES) or "." in value.rpartition("/")[2] or os.path.exists(value)  # noqa: PTH110
