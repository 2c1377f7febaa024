"""Whole jobs on pretend GPUs, one to each worker, grow, shrink and lose workers, and end with the bits of one CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.reports.events import Limited, Warned
from elastane.train.transport_choice import TransportWish
from train.devices.pretend import HERE, TESTS, Machine, alone, train
from train.running import SCRIPTS, Outcome

ON_DEVICE = SCRIPTS / "on_device.py"
GROW_AND_KILL = (
    Wish(3, "resize", 2, steps=True),
    Wish(0, "kill", settled=True),
    Wish(0, "resize", 4, settled=True),
    Wish(0, "kill", settled=True),
    Wish(0, "resize", 3, settled=True),
    Wish(0, "kill-leader", settled=True),
)
"""1, 2, 4, 3 workers, with a ``kill -9`` after each change."""
ONE_CHANGE = (Wish(3, "resize", 2, steps=True), Wish(0, "kill", settled=True))


def finished(outcome: Outcome) -> None:
    assert outcome.ended.outcome == "finished", (outcome.ended, outcome.printed[-30:])


def logged(run: Path) -> list[dict[str, Any]]:
    """The entries of a job's plan log."""
    return [json.loads(line) for line in (run / "plans.jsonl").read_text().splitlines()]


def same_bits_alone(script: Path, result: Path, folder: Path, *words: str) -> None:
    """The job's result is that of the same number of epochs on one CPU, and no worker fell back to that."""
    digest, epochs, kind = result.read_text().split()
    assert kind == "fakegpu"
    alone(script, folder, str(result), "--epochs", epochs, *words)
    assert result.read_text().split() == [digest, epochs, "cpu"]


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize("policy", [pytest.param("late", marks=pytest.mark.devices_ci), "thread"])
def test_changes_and_deaths_do_not_change_a_bit(tmp_path: Path, policy: str) -> None:
    result = tmp_path / "result"
    outcome = train(ON_DEVICE, tmp_path / "run", str(result), machine=Machine(4, policy), wishes=GROW_AND_KILL)
    finished(outcome)
    assert len(outcome.lost) == 3
    assert {1, 2, 3, 4} <= {1, *(change.after for change in outcome.resized)}
    same_bits_alone(ON_DEVICE, result, tmp_path / "cpu")


@pytest.mark.slow
@pytest.mark.devices
def test_a_death_between_the_reduction_and_the_step_does_not_change_a_bit(tmp_path: Path) -> None:
    result = tmp_path / "result"
    machine = Machine(3, variables={"DIES_BEFORE_STEP": "10"})
    wishes = (Wish(0, "resize", 2, settled=True), Wish(40, "resize", 3, steps=True))
    outcome = train(
        ON_DEVICE,
        tmp_path / "run",
        str(result),
        machine=machine,
        workers=3,
        wishes=wishes,
        preload=("dies_before_step",),
    )
    finished(outcome)
    assert [lost.worker for lost in outcome.lost] == ["w2"]
    same_bits_alone(ON_DEVICE, result, tmp_path / "cpu")


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize("policy", ["late", pytest.param("thread", marks=pytest.mark.devices_ci)])
def test_with_communicators_a_death_is_survived_over_gloo_and_then_they_are_rebuilt(
    tmp_path: Path, policy: str
) -> None:
    result = tmp_path / "result"
    outcome = train(
        ON_DEVICE,
        tmp_path / "run",
        str(result),
        machine=Machine(4, policy),
        wishes=GROW_AND_KILL,
        transport=TransportWish.NCCL,
    )
    finished(outcome)
    assert len(outcome.lost) == 3
    assert not [event for event in outcome.events if isinstance(event, Warned)]
    same_bits_alone(ON_DEVICE, result, tmp_path / "cpu")
    plans = [entry["plan"] for entry in logged(outcome.run) if entry["type"] == "plan"]
    kinds = {(plan["kind"], plan["transport"]) for plan in plans if len(plan["members"]) > 1}
    assert ("grow", "nccl") in kinds
    assert {transport for kind, transport in kinds if kind == "recover"} <= {"staged"}


@pytest.mark.slow
@pytest.mark.devices
def test_a_job_that_starts_with_several_workers_changes_over_to_a_communicator(tmp_path: Path) -> None:
    result = tmp_path / "result"
    outcome = train(
        ON_DEVICE,
        tmp_path / "run",
        str(result),
        machine=Machine(2),
        workers=2,
        wishes=(Wish(10, "kill", steps=True, settled=True),),
        transport=TransportWish.NCCL,
    )
    finished(outcome)
    assert [change.kind for change in outcome.resized][:1] == ["rebuild"]
    same_bits_alone(ON_DEVICE, result, tmp_path / "cpu")


STAGED, NCCL = TransportWish.STAGED, TransportWish.NCCL
KINDS = [
    ("plain", "fixed", "thread", NCCL),
    ("plain", "adaptive", "late", STAGED),
    ("plain", "adaptive", "thread", NCCL),
    pytest.param("fp16", "fixed", "late", STAGED, marks=pytest.mark.devices_ci),
    ("fp16", "fixed", "thread", NCCL),
    ("bf16", "fixed", "thread", STAGED),
    ("compiled", "fixed", "late", NCCL),
    ("gan", "fixed", "thread", STAGED),
    pytest.param("gan", "fixed", "late", NCCL, marks=pytest.mark.devices_ci),
]
"""Kinds of training, spread over modes, policies of streams and transports."""


def by_communicator(outcome: Outcome) -> bool:
    """Whether several workers ever trained over a communicator."""
    plans = [entry["plan"] for entry in logged(outcome.run) if entry["type"] == "plan"]
    return any(plan["transport"] == "nccl" and len(plan["members"]) > 1 for plan in plans)


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize(("kind", "mode", "policy", "transport"), KINDS)
def test_kinds_of_training_learn_as_much_as_undisturbed_ones(
    tmp_path: Path, kind: str, mode: str, policy: str, transport: TransportWish
) -> None:
    """Through a resize and a kill; a batch that adapts takes other steps, the others differ by rounding only."""
    result, plain = tmp_path / "result", tmp_path / "plain"
    script, words = HERE / "scripts" / "kinds.py", ("--kind", kind)
    wishes = GROW_AND_KILL if kind == "plain" else ONE_CHANGE
    outcome = train(
        script,
        tmp_path / "run",
        str(result),
        *words,
        machine=Machine(4 if kind == "plain" else 2, policy),
        wishes=wishes,
        mode=mode,
        transport=transport,
    )
    finished(outcome)
    assert len(outcome.lost) == len(wishes) // 2
    assert by_communicator(outcome) == (transport is NCCL)
    before, after, where, epochs = result.read_text().split()
    assert where == "fakegpu"
    alone(script, tmp_path / "cpu", str(plain), *words, "--epochs", epochs, mode="fixed")
    was, reached = map(float, plain.read_text().split()[:2])
    assert float(before) == pytest.approx(was, rel=1e-3)
    assert reached < 0.8 * was, "the plain run has learned too little to compare with"
    learned, should = float(before) - float(after), was - reached
    assert learned >= (0.5 if mode == "adaptive" else 0.97) * should, (before, after, was, reached)
    if mode == "fixed":
        assert learned <= 1.03 * should


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize(
    ("library", "modules", "policy", "transport"),
    [
        ("hf", "transformers.models.bert.modeling_bert,transformers.trainer", "thread", NCCL),
        ("lightning", "lightning.pytorch", "late", STAGED),
    ],
)
def test_trainers_of_other_libraries_grow_and_lose_a_worker(
    tmp_path: Path, library: str, modules: str, policy: str, transport: TransportWish
) -> None:
    """These scripts ask for a third worker by themselves, and kill one; consistent mode, so the end is known."""
    script, found, plain = TESTS / "train" / f"{library}_script.py", tmp_path / "found", tmp_path / "plain"

    def words(facts: Path, *more: str) -> list[str]:
        return (
            [str(tmp_path / f"out-{facts.name}"), str(facts), *more] if library == "hf" else [str(facts), *more]
        )

    outcome = train(
        script,
        tmp_path / "run",
        *words(found),
        workers=2,
        preload=tuple(modules.split(",")),
        machine=Machine(3, policy),
        transport=transport,
    )
    finished(outcome)
    facts = json.loads(found.read_text())
    assert facts["worlds"] == [2, 3, 2, 3]
    assert facts["device"] == "fakegpu"
    alone(script, tmp_path / "cpu", *words(plain, str(facts["step"])))
    torch.testing.assert_close(facts["weights"], json.loads(plain.read_text())["weights"], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.devices
@pytest.mark.parametrize(
    ("mode", "policy", "transport"),
    [pytest.param("fixed", "late", STAGED, marks=pytest.mark.devices_ci), ("adaptive", "thread", NCCL)],
)
def test_a_device_that_runs_full_in_a_step_halves_the_parts_of_all(
    tmp_path: Path, mode: str, policy: str, transport: TransportWish
) -> None:
    """100 MB of memory, 5.5 a sample: two parts of 8 fit (the last may not be freed yet), of 16 not."""
    result = tmp_path / "result"
    words = ["--mb=5.5", "--epochs=3", *(["--max-batch=64"] if mode == "adaptive" else [])]
    outcome = train(
        SCRIPTS / "hungry.py",
        tmp_path / "run",
        str(result),
        *words,
        machine=Machine(2, policy, memory_mb=100),
        workers=2,
        mode=mode,
        transport=transport,
    )
    finished(outcome)
    told = [(event.before, event.after) for event in outcome.events if isinstance(event, Limited)]
    assert told == [(16, 8)]
    assert all("OutOfMemoryError" in lost.cause for lost in outcome.lost)
    if mode == "fixed":
        alone(SCRIPTS / "hungry.py", tmp_path / "cpu", str(tmp_path / "plain"), *words, mode=mode)
        for mine, plain in zip(torch.load(result), torch.load(tmp_path / "plain"), strict=True):
            torch.testing.assert_close(mine, plain, rtol=1e-4, atol=1e-5)
