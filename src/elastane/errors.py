"""The one exception family that stands for a user's mistake; everything else is a defect of ours."""

from __future__ import annotations


class ElastaneError(Exception):
    """Bad input, in one sentence that names what is wrong; shown to people without a stack trace."""
