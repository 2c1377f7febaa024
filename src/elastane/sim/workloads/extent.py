"""Bounds the number of jobs and the length of a workload, so that a typing error does not fill the memory."""

from __future__ import annotations

from elastane.errors import ElastaneError

MAX_JOBS = 1_000_000
MAX_DAYS = 3650


def check_jobs(jobs: int) -> None:
    """Refuse a number of jobs that no simulation here could run."""
    if not 1 <= jobs <= MAX_JOBS:
        raise ElastaneError(f"jobs={jobs}: a workload has at least one job and at most {MAX_JOBS:,}")


def check_period(key: str, length: float, per_day: int = 1) -> None:
    """Refuse a period that is empty or beyond ten years; ``per_day`` of the key's units make a day."""
    most = MAX_DAYS * per_day
    if not 0 < length <= most:
        raise ElastaneError(f"{key}={length:g}: a workload's {key} must be above zero and at most {most:,}")


def scaled_count(jobs: int, load: float) -> int:
    """The number of jobs at ``load`` times the intensity, at least one."""
    if not 0 < load < float("inf"):
        raise ElastaneError(f"load must be a number above zero, not {load:g}")
    # A file that has more jobs by itself is somebody's trace; only multiplying beyond the bound is refused.
    if load > 1 and jobs * load > MAX_JOBS:
        raise ElastaneError(f"load {load:g} makes more than {MAX_JOBS:,} jobs of {jobs:,}")
    return max(1, round(jobs * load))
