"""Words that answers to people are made of: counts with their nouns, and lists of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_MOST_NAMED = 4
A_FOREIGN_JOB = "a job of another tenant"


def counted(count: int, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "worker"), counted(2, "slot")
    ('1 worker', '2 slots')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def named(jobs: Sequence[str]) -> str:
    """Jobs in a sentence, the first few by their ids.

    >>> named(["j1"]), named(["j1", "j2", "j3"])
    ('j1', 'j1, j2 and j3')
    """
    some = list(jobs) if len(jobs) <= _MOST_NAMED else [*jobs[: _MOST_NAMED - 1]]
    more = len(jobs) - len(some)
    some += [f"{more} more"] if more else []
    return some[0] if len(some) == 1 else f"{', '.join(some[:-1])} and {some[-1]}" if some else "others"


def named_to(tenant: str, jobs: Iterable[tuple[str, str]]) -> str:
    """Names jobs (id, tenant) in a sentence for one tenant: those of others are counted, not named.

    >>> named_to("a", [("j1", "a"), ("j2", "b"), ("j3", "b")])
    'j1 and 2 jobs of other tenants'
    """
    there = list(jobs)
    own = [job for job, whose in there if whose == tenant]
    others = len(there) - len(own)
    if not others:
        return named(own)
    foreign = A_FOREIGN_JOB if others == 1 else f"{others:,} jobs of other tenants"
    return f"{named(own)} and {foreign}" if own else foreign
