"""``job.all_reduce`` gives every worker the same figure, over the whole batch or all workers, whatever happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.coordinator.scripted_events import Wish
from elastane.train.errors import TrainError
from train.running import alone, train

WISHES = (
    Wish(3, "resize", 3, steps=True),
    Wish(0, "kill", settled=True),
    Wish(0, "kill-leader", settled=True),
    Wish(0, "resize", 1, settled=True),
)
STEPS = 7
"""In an epoch of 103 samples."""


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_figures_are_the_same_everywhere_through_resizes_and_kills(tmp_path: Path, mode: str) -> None:
    out, plain = tmp_path / "out", tmp_path / "plain"
    done = train("reducing.py", tmp_path / "run", str(out), "--pause=0.01", wishes=WISHES, mode=mode)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 2
    lines = [[float(number) for number in line.split()] for line in out.read_text().splitlines()]
    assert len(lines) >= 6
    assert all(right for *_, right in lines)
    # A worker that dies right behind a step takes its part of the figures along; no other epoch has less than all.
    deaths = [change.step for change in done.resized if change.kind == "recover"]
    assert len(deaths) == 2
    hurt = {epoch for step in deaths for epoch in ((step - 1) // STEPS, step // STEPS)}
    whole = [place for place in range(len(lines)) if place not in hurt]
    assert len(whole) >= 2
    assert {(lines[place][0], lines[place][2]) for place in whole} == {(103 * 104 / 2, 103.0)}
    assert all(0 < line[0] <= 103 * 104 / 2 for line in lines)
    if mode == "consistent":
        alone("reducing.py", tmp_path / "alone", str(plain), f"--epochs={len(lines)}", mode=mode)
        bits = plain.read_text().splitlines()
        found = out.read_text().splitlines()
        assert [found[place] for place in whole] == [bits[place] for place in whole]


def test_workers_that_disagree_end_the_job_with_one_line(tmp_path: Path) -> None:
    arguments = (str(tmp_path / "out"), "--epochs=2", "--uneven")
    done = train("reducing.py", tmp_path / "run", *arguments, workers=2)
    assert done.ended.outcome == "failed"
    assert "workers do not call job.all_reduce(...) alike" in done.ended.cause


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    job = et.init(run=tmp_path / "run", checkpoint_every=3600.0)
    model = job.model(nn.Linear(1, 1))
    job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    return job


@pytest.mark.parametrize(
    ("value", "how", "expected"),
    [
        (3, "sum", 3),
        (3, "mean", 3.0),
        (0.25, "max", 0.25),
        (torch.tensor([1, 2]), "sum", torch.tensor([1, 2])),
        (torch.tensor([1, 2]), "mean", torch.tensor([1.0, 2.0])),
        (torch.tensor(0.1, requires_grad=True), "mean", torch.tensor(0.1)),
        (torch.tensor([[True, False]]), "sum", torch.tensor([[1, 0]])),
    ],
)
def test_a_result_is_of_the_kind_that_was_given(job: et.Job, value: Any, how: str, expected: Any) -> None:
    found = job.all_reduce(value, how)
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert not found.requires_grad
        assert torch.equal(found, expected)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("value", "how", "message"),
    [
        (1.0, "average", "there is no 'average'"),
        ([1.0], "mean", "give a number or a tensor of numbers, not list"),
        (torch.zeros(1 << 17), "sum", "it is meant for figures"),
    ],
)
def test_what_cannot_be_reduced_is_one_clear_line(job: et.Job, value: Any, how: str, message: str) -> None:
    with pytest.raises(TrainError, match=message):
        job.all_reduce(value, how)


def test_in_the_loop_it_has_to_come_behind_the_step(job: et.Job) -> None:
    data = job.loader(TensorDataset(torch.zeros(8, 1)), batch_size=4)
    turns = iter(data)
    (x,) = next(turns)
    with pytest.raises(TrainError, match=r"before opt.step\(\)"):
        job.all_reduce(x.mean())


def test_evaluations_before_in_and_after_a_loop_are_told_apart(job: et.Job) -> None:
    data = job.loader(TensorDataset(torch.zeros(8, 1)), batch_size=4)
    opt, found = job._session.state.optimizer, []
    assert opt is not None
    for _ in job.epochs(1):
        found.append(job.evaluate(lambda: "before"))
        for _batch in data:
            opt.step()
            job.evaluate(lambda: "inside")
        found.append(job.evaluate(lambda: "after"))
    assert found == ["before", "after"]


@pytest.mark.parametrize("call", ["all_reduce", "init"])
def test_the_end_of_a_script_with_collectives_of_its_own_says_what_to_write(tmp_path: Path, call: str) -> None:
    script = tmp_path / "script.py"
    made = "dist.all_reduce(torch.zeros(1))" if call == "all_reduce" else "dist.init_process_group('gloo')"
    script.write_text(
        f"import torch\nimport torch.distributed as dist\nimport elastane.train as et\njob = et.init()\n{made}\n"
    )
    done = train(script, tmp_path / "run")
    assert done.ended.outcome == "failed"
    assert "write job.all_reduce(x, 'mean') in the place of dist.all_reduce" in done.ended.cause
