"""Words that answers are made of."""

from __future__ import annotations

import pytest

from elastane.service.wording import counted, named, plainly


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("4 jobs share 4 GPUs", "4 jobs share 4 slots"),
        ("needs 1 GPUs, 11 are free", "needs 1 slot, 11 are free"),
        ("needs 2 GPUs, 1 are free", "needs 2 slots, 1 is free"),
        ("needs 2 GPUs, none of 4 are free", "needs 2 slots, none of 4 is free"),
        ("21 workers; 0.1 GPUs", "21 workers; 0.1 slots"),
        ("", ""),
    ],
)
def test_a_policys_reason_has_the_words_of_the_cluster(reason: str, words: str) -> None:
    assert plainly(reason, "cpu") == words


def test_where_there_are_gpus_they_are_called_so() -> None:
    assert plainly("needs 2 GPUs, 1 are free", "a100") == "needs 2 GPUs, 1 is free"


def test_jobs_are_named_as_far_as_a_sentence_can_hold_them() -> None:
    assert [named(jobs) for jobs in ([], ["j1"], ["j1", "j2"], ["j1", "j2", "j3", "j4"])] == [
        "others",
        "j1",
        "j1 and j2",
        "j1, j2, j3 and j4",
    ]
    assert named([f"j{n}" for n in range(9)]) == "j0, j1, j2 and 6 more"
    assert (counted(1, "slot"), counted(1200, "job")) == ("1 slot", "1,200 jobs")
