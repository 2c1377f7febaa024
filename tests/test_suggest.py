from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.suggest import did_you_mean, nearest

FIELDS = ["command", "workers", "weight", "resources", "retries"]


@pytest.mark.parametrize(
    ("word", "known"),
    [("worker", "workers"), ("WORKERS", "workers"), ("ressources", "resources"), ("comand", "command")],
)
def test_a_misspelt_name_finds_the_one_that_was_meant(word: str, known: str) -> None:
    assert nearest(word, FIELDS) == known


@pytest.mark.parametrize("word", ["", "zzz", "w" * 100_000])
def test_a_word_unlike_all_names_finds_none(word: str) -> None:
    assert nearest(word, FIELDS) is None


def test_the_spelling_of_the_known_name_is_kept() -> None:
    assert nearest("a100", ["V100", "A100"]) == "A100"


@given(st.text(max_size=20), st.lists(st.text(max_size=20)))
def test_the_answer_is_a_known_name_and_does_not_depend_on_their_order(word: str, known: list[str]) -> None:
    found = nearest(word, known)
    assert found is None or found in known
    assert nearest(word, reversed(known)) == found


def test_the_tail_of_a_message_is_empty_without_a_near_name() -> None:
    assert did_you_mean("worker", FIELDS) == "; did you mean 'workers'?"
    assert did_you_mean("zzz", FIELDS) == ""
