"""What the job's spec declares reaches the script: as its defaults, and as the target that ends training."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.jobs.declared import VARIABLE, Batches, Declared, Goal
from elastane.train.errors import TrainError
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Warned
from elastane.train.script.declared import declared_here
from elastane.train.script.target import TargetWatch

DATA = TensorDataset(torch.arange(24.0).view(24, 1))
Begin = Callable[..., et.Job]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Begin:
    """Begins a job under a spec that declares these values."""
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_MODE", "RANK"):
        monkeypatch.delenv(name, raising=False)

    def begin(mode: str = "fixed", **declared: Any) -> et.Job:
        monkeypatch.setenv(VARIABLE, json.dumps(declared))
        job = et.init(mode, run=tmp_path / "run", checkpoint_every=3600.0)
        model = job.model(nn.Linear(1, 1), loss="mean")
        job.optimizer(torch.optim.SGD(model.parameters(), lr=1e-4))
        return job

    return begin


def warnings(job: et.Job) -> list[str]:
    return [event.text for event in load_run(job.run) if isinstance(event, Warned)]


def step(job: et.Job, inputs: torch.Tensor) -> torch.Tensor:
    model, optimizer = job._session.state.model, job._session.state.optimizer
    assert model is not None
    assert optimizer is not None
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    optimizer.step()
    return loss


def test_epochs_without_a_number_are_those_of_the_spec(begin: Begin) -> None:
    job = begin(epochs=3)
    assert list(job.epochs()) == [0, 1, 2]
    assert not warnings(job)


def test_the_scripts_epochs_win_and_the_difference_is_told_once(begin: Begin) -> None:
    job = begin(epochs=3)
    assert list(job.epochs(2)) == [0, 1]
    assert warnings(job) == ["job.epochs is 2 in the script, which wins; the job's spec declares epochs 3"]


def test_epochs_that_nobody_says_are_asked_for(begin: Begin) -> None:
    with pytest.raises(TrainError, match="say how many, or declare epochs in the job's spec"):
        list(begin().epochs())


def test_the_first_loader_takes_the_batch_of_the_spec_and_others_say_their_own(begin: Begin) -> None:
    job = begin(batch={"size": 6})
    assert job.loader(DATA).batch_size == 6
    with pytest.raises(TrainError, match="batch_size is missing"):
        job.loader(DATA, name="other")
    assert job.declared == Declared(batch=Batches(6))


@pytest.mark.parametrize("how", ["number", "DataLoader"])
def test_the_scripts_batch_wins(begin: Begin, how: str) -> None:
    job = begin(batch={"size": 6})
    loader = job.loader(DATA, 8) if how == "number" else job.loader(DataLoader(DATA, batch_size=8))
    assert loader.batch_size == 8
    list(job.epochs(1))
    told = "job.loader: batch_size is 8 in the script, which wins; the job's spec declares batch.size 6"
    assert warnings(job) == ([told] if how == "number" else [])


@pytest.mark.parametrize(
    ("own", "declared", "limit", "warned"),
    [(None, 12, 12, 0), (None, None, 32 * 6, 0), (10, 12, 10, 1), (None, 4, 6, 1), (12, 12, 12, 0)],
)
def test_an_adaptive_batch_grows_as_far_as_the_spec_allows(
    begin: Begin, own: int | None, declared: int | None, limit: int, warned: int
) -> None:
    # A limit below the script's own batch (4 < 6): the script's batch wins and does not grow.
    size = 6 if declared is None or declared >= 6 else declared
    job = begin("adaptive", batch={"size": size, **({"max": declared} if declared is not None else {})})
    loader = job.loader(DATA, 6, max_batch_size=own)
    for inputs in loader:
        step(job, inputs[0])
    adaptation = job._session.adaptation
    assert adaptation is not None
    assert adaptation.settings.maximum == limit
    assert len([text for text in warnings(job) if "max" in text]) == warned


def test_a_limit_for_adaptation_means_nothing_where_the_batch_is_fixed(begin: Begin) -> None:
    job = begin(batch={"size": 4, "max": 5})
    for inputs in job.loader(DATA, 6):
        step(job, inputs[0])
    assert job.batch_size == 6


@pytest.mark.parametrize("by", ["report", "evaluate", "evaluate a number"])
def test_training_ends_after_the_epoch_in_which_the_target_is_reached(begin: Begin, by: str) -> None:
    metric = "value" if by == "evaluate a number" else "accuracy"
    job = begin(epochs=9, target={"metric": metric, "value": 0.7, "direction": "at-least"})
    loader, done = job.loader(DATA, 12), []
    for epoch in job.epochs():
        for inputs in loader:
            step(job, inputs[0])
        accuracy = 0.5 + epoch / 10
        if by == "report":
            job.report(accuracy=accuracy)
        else:
            job.evaluate(lambda value: {"accuracy": value} if by == "evaluate" else value, accuracy)
        done.append(epoch)
    assert done == [0, 1, 2]
    assert job.epoch == 3


def test_a_run_that_has_reached_its_target_does_not_train_on_when_it_is_taken_up_again(begin: Begin) -> None:
    declared = {"epochs": 9, "target": {"metric": "loss", "value": 1e9, "direction": "at-most"}}
    for rounds in ([0], []):
        job = begin(**declared)
        loader, done = job.loader(DATA, 12), []
        for epoch in job.epochs():
            for inputs in loader:
                job.report(loss=step(job, inputs[0]))
            done.append(epoch)
        assert done == rounds


def test_a_target_that_a_frameworks_loop_does_not_heed_is_not_dropped_without_a_word(begin: Begin) -> None:
    job = begin(target={"metric": "accuracy", "value": 0.7, "direction": "at-least"})
    job._session.leave_target_to_script()
    assert list(job.epochs(2)) == [0, 1]
    [told] = warnings(job)
    assert told.startswith(
        "target accuracy of the job's spec: a framework's own training loop does not end by it"
    )


def test_a_target_that_nothing_reports_ends_nothing(begin: Begin) -> None:
    job = begin(target={"metric": "accuracy", "value": 0.7, "direction": "at-least"})
    assert list(job.epochs(3)) == [0, 1, 2]
    assert job.declared.target == Goal("accuracy", 0.7, "at-least")


def test_a_training_loss_is_judged_by_its_mean_over_an_epoch() -> None:
    watch = TargetWatch(Goal("loss", 1.0, "at-most"))
    for losses, verdict in (((3.0, 0.5), False), ((1.2, 0.6), True), ((), False), ((float("nan"),), False)):
        for loss in losses:
            watch.heard_loss(loss)
        assert watch.judge() is verdict


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not JSON"),
        ("[" * 9_000, "is not JSON"),
        ("[]", "must be a JSON object, not list"),
        (" " * 10_001, "at most 10000 characters"),
        ('{"epochs": 0}', "epochs: must be a whole number from 1"),
        ('{"epochs": true}', "epochs: must be a whole number"),
        ('{"epochs": 3.0}', "epochs: must be a whole number"),
        ('{"batch": 6}', "batch: must be a JSON object, not int"),
        ('{"batch": {}}', "batch.size: must be a whole number"),
        ('{"batch": {"size": 6, "max": 4}}', r"batch.max \(4\) is below batch.size \(6\)"),
        ('{"target": {"value": 1}}', "target.metric: must be the name"),
        (
            '{"target": {"metric": "a", "value": NaN, "direction": "at-least"}}',
            "target.value: must be a number",
        ),
        (
            '{"target": {"metric": "a", "value": 1, "direction": "up"}}',
            "target.direction: must be at-least or at-most",
        ),
    ],
)
def test_a_variable_that_makes_no_sense_is_a_clear_error(text: str, complaint: str) -> None:
    with pytest.raises(TrainError, match=f"ELASTANE_DECLARED.*{complaint}"):
        declared_here({VARIABLE: text})


def test_what_a_later_version_declares_is_left_alone() -> None:
    assert declared_here({VARIABLE: '{"epochs": 2, "patience": 5}'}) == Declared(2)
    assert declared_here({}) == declared_here({VARIABLE: ""}) == declared_here({VARIABLE: "{}"}) == Declared()
