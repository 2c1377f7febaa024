"""Newcomers follow on a pretend GPU while the others train: the bits are those of one process on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from train.on_device import pretend_gpus
from train.running import CHANGES, Outcome, alone, train

pytestmark = [pytest.mark.slow, pytest.mark.devices]

SCRIPTS = {"on_device.py": ("--opt", "adam"), "scaled.py": ()}


def grown(done: Outcome) -> bool:
    """Whether newcomers came, and all that were not urgently needed followed the others first."""
    joins = [change for change in done.resized if change.kind != "recover" and change.after > change.before]
    return bool(joins) and all(change.shadow for change in joins)


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("where", ["cpu", "fakegpu"])
def test_followers_come_and_others_die_with_the_bits_of_one_process(
    tmp_path: Path, where: str, script: str
) -> None:
    out = tmp_path / "out"
    environment = pretend_gpus(tmp_path) if where == "fakegpu" else {}
    done = train(
        script,
        tmp_path / "run",
        str(out),
        *SCRIPTS[script],
        wishes=CHANGES,
        mode="consistent",
        environment=environment,
    )
    assert done.ended.outcome == "finished", done.log()
    assert grown(done), done.resized
    bits, epochs, device = out.read_text().split()
    assert device == where
    limit = ["--epochs", epochs] if script == "on_device.py" else [epochs]
    alone(script, tmp_path / "alone", str(out), *limit, *SCRIPTS[script], mode="consistent")
    assert out.read_text().split() == [bits, epochs, "cpu"]


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_a_run_that_is_taken_up_again_draws_the_random_numbers_that_come_next(
    tmp_path: Path, mode: str
) -> None:
    out, environment = tmp_path / "out", pretend_gpus(tmp_path)
    results = []
    for run, parts in (("whole", ["3"]), ("broken", ["1", "3"])):
        for epochs in parts:
            alone("scaled.py", tmp_path / run, str(out), epochs, mode=mode, environment=environment)
        results.append(out.read_text())
    assert results[0] == results[1]
