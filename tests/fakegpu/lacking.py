"""What becomes of a test where the pretend device cannot be built: it is skipped, but in CI it fails."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def without(reason: object) -> NoReturn:
    """End the test, with the reason; in CI (``CI=true``) nobody would notice that it was skipped."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"no pretend GPU in CI: {reason}", pytrace=False)
    pytest.skip(str(reason))
