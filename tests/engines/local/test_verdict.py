"""How a job ended is decided by what happened to its processes, never by what it printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elastane.engines.contract import Attempt, Cause, Over, cause_of
from elastane.engines.local.attempt_process import end_of_job
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.exit_cause import FINISHED, NODE_LOST, ExitCause, ExitKind, cancelled, given_up
from engines.local.house import House, house, live

LIES = (
    "its node was lost",
    "torch.OutOfMemoryError: CUDA out of memory",
    "killed by signal 9",
    "exit code 127",
    "suspended: by me",
    "workers cannot be started",
)


def over(exit: ExitCause, kind: JobKind = JobKind.COMMAND) -> Over:
    return Over(Attempt("j1", 1), 1, end_of_job(exit, kind), 0.0)


@pytest.mark.parametrize("words", LIES)
@pytest.mark.parametrize("kind", JobKind)
def test_words_change_no_verdict(words: str, kind: JobKind) -> None:
    plain = over(ExitCause.of_process(3), kind)
    lying = over(ExitCause.of_process(3).told(words), kind)
    assert (lying.cause, lying.detail, lying.code) == (Cause.FAILED, words, 3)
    assert (plain.cause, plain.detail, plain.code) == (Cause.FAILED, "exit code 3", 3)
    assert over(cancelled(words), kind).cause is Cause.CANCELLED
    given = over(given_up(words), kind)
    assert (given.cause, given.detail, given.code) == (Cause.FAILED, words, None)


def test_every_kind_of_end_has_a_meaning() -> None:
    assert {cause_of(ExitCause(kind)) for kind in ExitKind} == set(Cause)
    clean, killed = over(FINISHED), over(ExitCause.of_process(-9))
    assert (clean.cause, clean.detail, clean.code) == (Cause.FINISHED, "", 0)
    assert (killed.cause, killed.detail, killed.code) == (Cause.FAILED, "killed by signal 9", -9)
    assert cause_of(ExitCause.of_process(127)) is Cause.UNSTARTABLE


def test_an_adaptive_job_survives_its_nodes_so_the_end_of_one_is_no_excuse() -> None:
    kinds = (JobKind.ADAPTIVE, JobKind.COMMAND, JobKind.RESIZABLE)
    assert [over(NODE_LOST, kind).cause for kind in kinds] == [Cause.FAILED, Cause.LOST, Cause.LOST]


async def end_of(living: House, number: int, *command: str, kind: str = "auto") -> Over:
    job = living.launch(f"j{number}", 1, *command, kind=kind)
    living.want(job, {"n0": 1})
    await living.until(lambda: living.over(job) is not None)
    over = living.over(job)
    assert over is not None
    return over


def test_a_job_whose_last_line_lies_has_failed_with_its_exit_code(tmp_path: Path) -> None:
    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            for number, words in enumerate(LIES[:3]):
                script = f"print({words!r}, flush=True); raise SystemExit(3)"
                over = await end_of(living, number, sys.executable, "-c", script)
                assert (over.cause, over.code) == (Cause.FAILED, 3), words
                assert words in over.detail

    live(story)


def test_a_script_that_gets_no_memory_is_told_from_one_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "honest.py").write_text("held = bytearray(1 << 60)")
    (tmp_path / "quoting.py").write_text("raise ValueError('MemoryError: out of memory')")

    async def story() -> None:
        async with house(tmp_path, nodes=1) as living:
            # Forked by a fork server that has imported PyTorch, and started by one that has not.
            for number, kind in enumerate(("adaptive", "command")):
                over = await end_of(living, number, sys.executable, str(tmp_path / "honest.py"), kind=kind)
                assert (over.cause, over.code) == (Cause.OUT_OF_MEMORY, 1), over
                assert "MemoryError" in over.detail
            over = await end_of(living, 2, sys.executable, str(tmp_path / "quoting.py"), kind="command")
            assert (over.cause, over.code) == (Cause.FAILED, 1), over

    live(story)
