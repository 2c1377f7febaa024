"""Names as they may stand in a URL: strict patterns, matched whole."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path, Query

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_WHOLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
LARGEST = 2**63 - 1
"""The largest whole number that a store can hold."""

JobId = Annotated[str, Path(pattern=NAME, description="The job's exact id.")]
NodeId = Annotated[str, Path(pattern=NAME, description="The node's exact id.")]
PoolName = Annotated[str, Path(pattern=NAME, description="The pool's name, as its engine has it.")]
TenantName = Annotated[str, Path(pattern=NAME)]
UserName = Annotated[str, Path(pattern=NAME)]
TokenId = Annotated[str, Path(pattern=NAME, description="The token's id, not the token.")]
WorkerName = Annotated[str, Path(pattern=NAME)]
AttemptNumber = Annotated[int, Path(ge=0, le=1_000_000)]
PackageDigest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="The SHA-256 of its bytes.")]
AskedName = Annotated[str | None, Query(pattern=NAME)]
After = Annotated[int, Query(ge=0, le=LARGEST, description="Entries after this one.")]


def is_name(text: str) -> bool:
    """Whether a text could be an id at all."""
    return _WHOLE_NAME.fullmatch(text) is not None
