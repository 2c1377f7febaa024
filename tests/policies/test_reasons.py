"""Reasons are told in the words of whoever listens, without anybody reading their text."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from elastane.policies.reasons import Gpus, Job, Reason, Wording, are, listed, said, told

SLOTS = Wording("slot")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (said("4 jobs share ", Gpus(4)), "4 jobs share 4 slots"),
        (said("needs ", Gpus(1), f", {are(11)} free"), "needs 1 slot, 11 are free"),
        (said("needs ", Gpus(2), f", {are(1)} free"), "needs 2 slots, 1 is free"),
        (said("needs ", Gpus(2), f", {are(0, of=4)} free"), "needs 2 slots, none of 4 is free"),
        (said("21 workers; ", Gpus(0.1)), "21 workers; 0.1 slots"),
        (said("others gain more from the ", Gpus()), "others gain more from the slots"),
        (said(), ""),
    ],
)
def test_a_reason_has_the_words_of_the_cluster(reason: Reason, words: str) -> None:
    assert told(reason, SLOTS) == words
    assert told(reason, Wording()) == str(reason)


def test_where_there_are_gpus_they_are_called_so() -> None:
    assert said("needs ", Gpus(1), f", {are(1, of=4)} free") == "needs 1 GPU, 1 of 4 is free"


def test_a_job_is_hidden_wherever_it_is_mentioned_and_whatever_its_id_looks_like() -> None:
    first = said("behind ", listed([Job("j1"), Job("j2"), Job("weekly")]))
    whole = said(first, "; needs j2 GPUs")
    hidden = Wording(named=lambda job: job if job == "j1" else "a job of another tenant")
    assert whole == "behind j1, j2, weekly; needs j2 GPUs"
    assert told(whole, hidden) == (
        "behind j1, a job of another tenant, a job of another tenant; needs j2 GPUs"
    ), "only what is marked is a job"


def test_text_without_marks_is_told_as_it_is() -> None:
    assert told("waits for its share", SLOTS) == "waits for its share"
    assert told(Reason("2 GPUs"), SLOTS) == "2 GPUs"


def test_a_reason_survives_copies_and_is_plain_text_to_json() -> None:
    reason = said("behind ", Job("j1"))
    for other in (copy.deepcopy(reason), pickle.loads(pickle.dumps(reason))):
        assert other == reason
        assert other.parts == reason.parts
    assert json.loads(json.dumps({"why": reason})) == {"why": "behind j1"}
