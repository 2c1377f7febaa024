"""Keeps the pool of past jobs: bounded, private per tenant unless shared, and quick to search."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

from elastane.models.history.experience import Experience, merged
from elastane.models.history.merge import Neighbour, recollect
from elastane.models.history.prior import Memory
from elastane.models.history.signature import Signature, similarity
from elastane.models.history.transfer import Ratios, one_gpu_ratios

MOST = 10_000
MOST_ALIKE = 64
_MOST_NEIGHBOURS, _MOST_KNOWING = 64, 32
_LEAST_ALIKE = 0.1
_NEAR_THE_BEST = 0.5
"""Neighbours less similar than this fraction of the nearest one's similarity are left out."""
_MOST_KEPT_ANSWERS = 1024


class _Answers:
    """A cache of answers, each valid until an experience changes that it rests on."""

    def __init__(self) -> None:
        self.by_question: dict[tuple[Signature, str], Memory | None] = {}
        self.by_neighbours: dict[tuple[tuple[str, float], ...], Memory] = {}

    def keep(self, question: tuple[Signature, str], answer: Memory | None) -> None:
        if len(self.by_question) >= _MOST_KEPT_ANSWERS:
            self.by_question.clear()
            self.by_neighbours.clear()
        self.by_question[question] = answer

    def forget(self, past: Experience, *, altered: bool) -> None:
        """Drops the answers that rest on an experience; ``altered``: it was removed, so merged ones as well."""
        keys = set(past.signature.keys)
        for question in [each for each in self.by_question if keys.intersection(each[0].keys)]:
            del self.by_question[question]
        if altered:
            self.by_neighbours.clear()


class Pool:
    """Experiences in order of addition, ``most`` at most, and ``most_alike`` of one tenant's kind of job.

    When a kind has too many, the oldest that a newer one with an equal signature makes redundant goes first.
    """

    def __init__(
        self, experiences: Iterable[Experience] = (), most: int = MOST, most_alike: int = MOST_ALIKE
    ) -> None:
        self.most, self.most_alike = most, most_alike
        self.version = 0
        """Goes up with every change."""
        self._all: dict[str, Experience] = {}
        self._found_by: dict[tuple[str, str], dict[str, Experience]] = {}
        self._kinds: dict[tuple[str, ...], dict[str, Experience]] = {}
        self._answers = _Answers()
        for past in experiences:
            self.add(past)

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Experience]:
        return iter(tuple(self._all.values()))

    def __contains__(self, experience_id: object) -> bool:
        return experience_id in self._all

    def add(self, past: Experience) -> tuple[str, ...]:
        """Adds a job, or more of one that is known; returns the ids of those dropped to make room.

        A job without name, script or model could never be found again and is not kept.
        """
        if not past.signature.keys:
            return ()
        if past.id in self._all:
            past = merged(self._all[past.id], past)
            self.remove(past.id)
        self._all[past.id] = past
        for key in past.signature.keys:
            self._found_by.setdefault(key, {})[past.id] = past
        kind = self._kinds.setdefault(_kind(past), {})
        kind[past.id] = past
        self._changed(past)
        dropped = []
        if len(kind) > self.most_alike:
            dropped.append(_redundant(kind))
        elif len(self._all) > self.most:
            dropped.append(next(iter(self._all)))
        for each in dropped:
            self.remove(each)
        return tuple(dropped)

    def remove(self, experience_id: str) -> None:
        """Removes one job's record from the pool."""
        past = self._all.pop(experience_id)
        self._changed(past, gone=True)
        for key in past.signature.keys:
            self._found_by[key].pop(experience_id)
            if not self._found_by[key]:
                del self._found_by[key]
        kind = _kind(past)
        self._kinds[kind].pop(experience_id)
        if not self._kinds[kind]:
            del self._kinds[kind]

    def recall(self, signature: Signature, exclude: str = "") -> Memory | None:
        """Predicts a job from similar ones, without the one named ``exclude``; None if there are none."""
        question = (signature, exclude if exclude in self._all else "")
        if question not in self._answers.by_question:
            self._answers.keep(question, self._recall(*question))
        return self._answers.by_question[question]

    def _recall(self, signature: Signature, exclude: str) -> Memory | None:
        alike = self._alike(signature, exclude)
        if not alike:
            return None
        knowing = sorted(alike, key=lambda n: -sum(map(len, n[0].timings.values())))[:_MOST_KNOWING]
        # Questions that differ may have the same answer, and its fit is what takes time.
        key = tuple((past.id, weight) for past, weight in alike)
        found = self._answers.by_neighbours.get(key)
        if found is None:
            found = self._answers.by_neighbours[key] = recollect(knowing, alike, self.ratios)
        return found

    def _alike(self, signature: Signature, exclude: str) -> list[Neighbour]:
        """Returns neighbours with their similarity in tenths, the nearest first and of equal ones the latest.

        Finer figures would mean nothing, and in tenths more questions have the same answer.
        """
        candidates: dict[str, Experience] = {}
        for key in signature.keys:
            candidates.update(self._found_by.get(key, {}))
        candidates.pop(exclude, None)
        weighed = [
            (past, round(similarity(signature, past.signature), 1))
            for past in reversed(candidates.values())
            if past.shared or past.tenant == signature.tenant
        ]
        weighed.sort(key=lambda neighbour: -neighbour[1])
        if not weighed:
            return []
        least = max(_LEAST_ALIKE, _NEAR_THE_BEST * weighed[0][1])
        return [neighbour for neighbour in weighed[:_MOST_NEIGHBOURS] if neighbour[1] >= least]

    @cached_property
    def ratios(self) -> Ratios:
        """One-GPU time ratios between accelerators over all tenants' kinds of jobs; no single job can be read off."""
        return one_gpu_ratios(list(kind.values()) for kind in self._kinds.values())

    def _changed(self, past: Experience, *, gone: bool = False) -> None:
        self.version += 1
        self._answers.forget(past, altered=gone)
        # Ratios are found by looking at all there is; only a kind that ran on several types has any part in them.
        alike = self._kinds.get(_kind(past), {}).values()
        if len({gpu_type for each in (past, *alike) for gpu_type in each.timings}) > 1:
            self.__dict__.pop("ratios", None)


def _kind(past: Experience) -> tuple[str, ...]:
    return (past.tenant, *past.signature.keys[0])


def _redundant(kind: dict[str, Experience]) -> str:
    """Returns the id of the oldest job whose signature a newer one has as well, else of the oldest."""
    newer: set[Signature] = set()
    found = next(iter(kind))
    for past in reversed(kind.values()):
        if past.signature in newer:
            found = past.id
        newer.add(past.signature)
    return found
