"""How a job ended is decided by what happened to its processes, never by what it printed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elastane.engines.contract import Cause, Over
from elastane.engines.local.attempt_process import Verdict, verdict
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


@pytest.mark.parametrize("words", LIES)
@pytest.mark.parametrize("kind", JobKind)
def test_words_change_no_verdict(words: str, kind: JobKind) -> None:
    plain, lying = ExitCause.of_process(3), ExitCause.of_process(3).told(words)
    assert verdict(lying, kind) == Verdict(Cause.FAILED, words, 3)
    assert verdict(plain, kind) == Verdict(Cause.FAILED, "exit code 3", 3)
    assert verdict(cancelled(words), kind).cause is Cause.CANCELLED
    assert verdict(given_up(words), kind) == Verdict(Cause.FAILED, words)


def test_every_kind_of_end_has_a_verdict() -> None:
    found = {kind: verdict(ExitCause(kind), JobKind.RIGID).cause for kind in ExitKind}
    assert set(found.values()) == set(Cause)
    assert verdict(FINISHED, JobKind.RIGID) == Verdict(Cause.FINISHED, "", 0)
    assert verdict(ExitCause.of_process(-9), JobKind.RIGID) == Verdict(Cause.FAILED, "killed by signal 9", -9)
    assert verdict(ExitCause.of_process(127), JobKind.RIGID).cause is Cause.UNSTARTABLE


def test_an_adaptive_job_survives_its_nodes_so_the_end_of_one_is_no_excuse() -> None:
    causes = [verdict(NODE_LOST, kind).cause for kind in (JobKind.ADAPTIVE, JobKind.RIGID, JobKind.RESIZABLE)]
    assert causes == [Cause.FAILED, Cause.LOST, Cause.LOST]


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
            # Forked by a nursery that has imported PyTorch, and started by one that has not.
            for number, kind in enumerate(("adaptive", "rigid")):
                over = await end_of(living, number, sys.executable, str(tmp_path / "honest.py"), kind=kind)
                assert (over.cause, over.code) == (Cause.OUT_OF_MEMORY, 1), over
                assert "MemoryError" in over.detail
            over = await end_of(living, 2, sys.executable, str(tmp_path / "quoting.py"), kind="rigid")
            assert (over.cause, over.code) == (Cause.FAILED, 1), over

    live(story)
