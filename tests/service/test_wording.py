"""Words that answers are made of."""

from __future__ import annotations

from elastane.service.wording import counted, named


def test_jobs_are_named_as_far_as_a_sentence_can_hold_them() -> None:
    assert [named(jobs) for jobs in ([], ["j1"], ["j1", "j2"], ["j1", "j2", "j3", "j4"])] == [
        "others",
        "j1",
        "j1 and j2",
        "j1, j2, j3 and j4",
    ]
    assert named([f"j{n}" for n in range(9)]) == "j0, j1, j2 and 6 more"
    assert (counted(1, "slot"), counted(1200, "job")) == ("1 slot", "1,200 jobs")
