"""A group breaks between two optimizers' steps of one batch: whoever is behind takes over the state of the one ahead.

As in ``test_catching_up``: a run in one process breaks at any collective, and goes on with the state that another run
had one or two collectives later: within a phase, in the next one, or in the next step.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import MembershipChanged
from elastane.train.worker.state_codec import Packed, clone_tensors
from train.test_catching_up import OneMemberGroup

EPOCHS, STEPS = 2, 3


def play(run: Path, monkeypatch: pytest.MonkeyPatch, before: Callable[[et.Job, int], None]) -> dict[str, Any]:
    """Two optimizers, the second of them not for every batch; parts of two samples; schedulers at several places."""
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    job = et.init(run=run, checkpoint_every=3600.0)
    group = OneMemberGroup(lambda call: before(job, call))
    job._session.membership.group = group  # type: ignore[assignment]
    torch.manual_seed(0)
    first, second = job.model(nn.Linear(3, 1)), job.model(nn.Linear(1, 1))
    opt1 = job.optimizer(torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9))
    opt2 = job.optimizer(torch.optim.Adam(second.parameters(), lr=0.1))
    behind = job.scheduler(torch.optim.lr_scheduler.StepLR(opt1, 2, 0.9))
    last = [
        job.scheduler(torch.optim.lr_scheduler.StepLR(opt, 3, 0.9), name)
        for opt, name in ((opt1, "last1"), (opt2, "last2"))
    ]
    x = torch.randn(11, 3, generator=torch.Generator().manual_seed(1))
    data = job.loader(TensorDataset(x), batch_size=4, max_per_worker=2, shuffle=False)
    scores: list[float] = []
    sums: dict[int, float] = {}
    for _ in job.epochs(EPOCHS):
        for (inputs,) in data:
            opt1.zero_grad()
            (second(first(inputs)) - 1.0).square().mean().backward()
            opt1.step()
            behind.step()
            if data.steps % 2 == 0:
                opt2.zero_grad()
                (second(first(inputs)) + inputs.sum(1, keepdim=True)).square().mean().backward()
                opt2.step()
            for schedule in last:
                schedule.step()
            total = float(job.all_reduce(inputs.sum(), "sum"))
            if job.stepped:
                sums[job.step] = total
        scores.append(job.evaluate(lambda: float(second(first(x)).square().mean())))
    return {
        "parameters": [p.detach().clone() for net in (first, second) for p in net.parameters()],
        "scores": scores,
        "sums": sums,
        "step": job.step,
        "rates": [schedule.last_epoch for schedule in (behind, *last)],
        "collectives": group.calls,
    }


@pytest.fixture(scope="module")
def ahead(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[int, Packed]]:
    states: dict[int, Packed] = {}

    def remember(job: et.Job, call: int) -> None:
        states[call] = clone_tensors(job._session.state.take())

    with pytest.MonkeyPatch.context() as patch:
        return play(tmp_path_factory.mktemp("ahead"), patch, remember), states


# Per epoch: two steps of two phases and one of one, each phase with a comparison and a reduction, each step with a
# comparison at its end and a figure (comparison and reduction); an evaluation.
COLLECTIVES = EPOCHS * (5 * 2 + STEPS * 3 + 1)


@pytest.mark.parametrize("skew", [0, 1, 2])
@pytest.mark.parametrize("breaks_at", range(1, COLLECTIVES + 1))
def test_a_worker_that_is_behind_ends_like_the_one_ahead(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead: tuple[dict[str, Any], dict[int, Packed]],
    breaks_at: int,
    skew: int,
) -> None:
    expected, states = ahead
    assert expected["collectives"] == COLLECTIVES
    if breaks_at + skew > COLLECTIVES:
        pytest.skip("nobody can be ahead of the end")
    broken = []

    def break_once(job: et.Job, call: int) -> None:
        if call == breaks_at and not broken:
            broken.append(call)
            raise MembershipChanged("a member died")

    def recover(membership: Any, crew: Any, why: str, waited_s: float = 0.0) -> None:
        if skew:
            crew.state.put(clone_tensors(states[breaks_at + skew]))

    monkeypatch.setattr("elastane.train.worker.membership.Membership.recover", recover)
    found = play(tmp_path / "behind", monkeypatch, break_once)
    assert broken
    assert found["step"] == expected["step"] == EPOCHS * STEPS
    assert found["scores"] == pytest.approx(expected["scores"], rel=1e-6)
    assert found["rates"] == expected["rates"] == [6, 6, 6]
    if skew < 2:  # two ahead, there may be steps that the one behind has not seen at all
        assert found["sums"] == pytest.approx({step: expected["sums"][step] for step in found["sums"]})
    for one, other in zip(found["parameters"], expected["parameters"], strict=True):
        torch.testing.assert_close(one, other)
