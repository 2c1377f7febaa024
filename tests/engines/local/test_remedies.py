"""A remedy is told by what Python wrote, never by a sentence of ours that a script can write as well."""

from __future__ import annotations

import pytest

from elastane.engines.local.command import Runnable
from elastane.engines.local.remedies import with_remedy
from elastane.train.exit_cause import ExitCause, ExitKind

ABSENT = "ModuleNotFoundError: No module named 'torch'"
SCRIPT = Runnable("train.py", python="/v/bin/python")
ENDED = ExitCause.of_process(1)


def test_a_package_that_is_absent_is_named_with_the_interpreter_that_lacks_it() -> None:
    told = with_remedy(ENDED.told("worker w1 (rank 0): exit code 1").said(ABSENT), SCRIPT)
    assert str(told) == "worker w1 (rank 0): exit code 1; install it with: /v/bin/python -m pip install torch"
    assert (told.kind, told.code) == (ExitKind.EXIT_CODE, 1)


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        (f"worker w1 (rank 0): exit code 1; its last words: {ABSENT}", "ValueError: no"),
        (
            f"worker w1 (rank 0): exit code 1; its last words: {ABSENT}",
            f"ValueError: x; its last words: {ABSENT}",
        ),
        (ABSENT, ""),
    ],
)
def test_sentences_of_ours_and_words_within_those_of_a_script_decide_nothing(detail: str, words: str) -> None:
    end = ENDED.told(detail).said(words)
    assert str(with_remedy(end, SCRIPT)) == detail


def test_a_program_is_not_told_of_packages() -> None:
    end = ENDED.told("no").said(ABSENT)
    assert with_remedy(end, Runnable("", program=("./train",))) == end
