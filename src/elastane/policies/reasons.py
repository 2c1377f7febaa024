"""Reasons mark the jobs and the numbers of GPUs that they mention, so that anybody can be told them.

A job that waits is told why, and the reason may mention another tenant's job; a cluster without GPUs has slots.  Who
tells it puts other words for what is marked (``told``) and never looks into the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Job(NamedTuple):
    """A job that is mentioned in a reason, by its id."""

    id: str

    def __str__(self) -> str:
        return self.id


class Gpus(NamedTuple):
    """A number of GPUs that is mentioned in a reason, with the noun; without a number, the noun alone."""

    number: float | None = None

    def __str__(self) -> str:
        return self.of("GPU")

    def of(self, noun: str) -> str:
        """The number with this noun.

        >>> Gpus(1).of("slot"), Gpus(0.5).of("GPU"), Gpus().of("slot")
        ('1 slot', '0.5 GPUs', 'slots')
        """
        plural = noun if self.number == 1 else f"{noun}s"
        if self.number is None:
            return plural
        return f"{self.number:g} {plural}" if isinstance(self.number, float) else f"{self.number} {plural}"


Part = str | Job | Gpus


class Reason(str):
    """A sentence as plain text, which remembers of which parts it is made; ``said`` makes one."""

    parts: tuple[Part, ...]

    def __new__(cls, text: str, parts: tuple[Part, ...] = ()) -> Reason:
        """A reason that reads ``text``; without ``parts`` nothing in it is marked."""
        made = super().__new__(cls, text)
        made.parts = parts or (text,)
        return made


def said(*parts: Part) -> Reason:
    """A reason of these parts, some of which may be reasons themselves; f-strings would lose what is marked.

    >>> said("needs ", Gpus(2), "; ", Job("j1"), " is first")
    'needs 2 GPUs; j1 is first'
    """
    flat: list[Part] = []
    for part in parts:
        if isinstance(part, Reason):
            flat += part.parts
        else:
            flat.append(part)
    return Reason("".join(map(str, flat)), tuple(flat))


def listed(parts: Sequence[Part], between: str = ", ") -> Reason:
    """Parts one after the other, with this between them.

    >>> listed([Job("j1"), Job("j2")])
    'j1, j2'
    """
    return said(*[each for part in parts for each in (between, part)][1:])


@dataclass(frozen=True, slots=True)
class Wording:
    """The words that a listener knows: ``gpu`` for one GPU, and a name for each job that may be mentioned."""

    gpu: str = "GPU"
    named: Callable[[str], str] = str


def told(reason: str, words: Wording) -> str:
    """The reason in the words of a listener; text that marks nothing is told as it is.

    >>> told(said(Job("j2"), " holds ", Gpus(1)), Wording("slot", lambda job: "another job"))
    'another job holds 1 slot'
    """
    if not isinstance(reason, Reason):
        return reason
    return "".join(_word(part, words) for part in reason.parts)


def _word(part: Part, words: Wording) -> str:
    match part:
        case Job(job):
            return words.named(job)
        case Gpus():
            return part.of(words.gpu)
        case _:
            return part


def are(count: int, of: int | None = None) -> str:
    """A number, perhaps ``of`` so many, with its verb.

    >>> are(1), are(0), are(0, of=4), are(3, of=4)
    ('1 is', '0 are', 'none of 4 is', '3 of 4 are')
    """
    if of is None:
        return f"{count} {'is' if count == 1 else 'are'}"
    return f"{max(0, count) or 'none'} of {of} {'is' if count <= 1 else 'are'}"
