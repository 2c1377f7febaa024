"""Words that answers to people are made of: counts with their nouns, lists of jobs, and policies' reasons put plainly.

Policies speak of GPUs, because that is what their papers divide; a cluster without any has slots.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

_MOST_NAMED = 4
_JOB = re.compile(r"\bj\d+\b")
_GPUS = re.compile(r"\bGPU(s?)\b")
_ONE_OF_MANY = re.compile(r"(?<![\d.,])1 (GPU|CPU|slot|worker|node|job)s\b")
_ONE_ARE = re.compile(r"(?<![\d.,])(1|1 of [\d,]+|none of [\d,]+) are (free|left|spare)\b")


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
    foreign = "a job of another tenant" if others == 1 else f"{others:,} jobs of other tenants"
    return f"{named(own)} and {foreign}" if own else foreign


def without_foreign(text: str, tenant: str, tenants: Callable[[str], str | None]) -> str:
    """Takes foreign jobs out of a sentence for one tenant, in which a policy may have named any job.

    >>> without_foreign("behind j1 and j2", "a", {"j1": "a", "j2": "b"}.get)
    'behind j1 and a job of another tenant'
    """

    def told(found: re.Match[str]) -> str:
        return found[0] if tenants(found[0]) in (tenant, None) else "a job of another tenant"

    return _JOB.sub(told, text)


def plainly(reason: str, accelerator: str) -> str:
    """A policy's reason with the words of this cluster.

    >>> plainly("needs 2 GPUs, 1 of 4 are free", "cpu")
    'needs 2 slots, 1 of 4 is free'
    """
    words = _GPUS.sub(r"slot\1", reason) if accelerator == "cpu" else reason
    return _ONE_ARE.sub(r"\1 is \2", _ONE_OF_MANY.sub(r"1 \1", words))
