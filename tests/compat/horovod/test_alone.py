"""A Horovod script without others: everything works, and means what it means with one worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from torch import nn

import elastane.compat.horovod as hvd
from elastane.compat.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from elastane.train.errors import Released, TrainError


def test_nothing_works_before_init() -> None:
    assert not hvd.is_initialized()
    with pytest.raises(TrainError, match=r"hvd\.init"):
        hvd.size()


@pytest.mark.usefixtures("alone")
def test_one_worker_is_number_0_of_1() -> None:
    hvd.init()
    assert hvd.is_initialized()
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()) == (0, 1, 0, 1)


@pytest.mark.usefixtures("alone")
def test_collectives_of_one_worker_change_nothing() -> None:
    tensor = torch.arange(6.0).view(2, 3)
    for result in (hvd.allreduce(tensor), hvd.allreduce(tensor, op=hvd.Sum), hvd.allgather(tensor)):
        assert torch.equal(result, tensor)
        assert result.data_ptr() != tensor.data_ptr()
    assert torch.equal(hvd.broadcast_(tensor, 0), tensor)
    assert hvd.broadcast_object({"a": [1, (2, "x")]}) == {"a": [1, (2, "x")]}
    assert hvd.allgather_object("x") == ["x"]


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: hvd.allreduce(torch.ones(1), average=True, op=hvd.Sum), "op or average"),
        (lambda: hvd.allreduce(torch.ones(1), op=3), "op must be"),
        (lambda: hvd.allreduce(torch.ones(1, dtype=torch.bool)), "bool"),
        (lambda: hvd.allgather(torch.tensor(1.0)), "without dimensions"),
        (lambda: hvd.broadcast(torch.ones(1), 1), "no worker 1 among 1"),
        (lambda: hvd.broadcast_object(object()), "object cannot be saved"),
        (lambda: hvd.init(comm=[0, 1]), "communicators"),
        (lambda: hvd.elastic.ObjectState(commit=1), "'commit' is a name"),
        (lambda: hvd.elastic.ObjectState(thing=object()), "thing: an object"),
        (lambda: hvd.elastic.run(print)(3), "must be a State, not int"),
        (lambda: hvd.elastic.ElasticSampler([1], batch_size=0), "batch_size"),
    ],
)
def test_mistakes_are_named(call, word: str) -> None:
    with pytest.raises(TrainError, match=word):
        call()


@pytest.mark.usefixtures("alone")
def test_a_wrapped_optimizer_steps_as_before_and_keeps_its_class() -> None:
    torch.manual_seed(0)
    plain, wrapped = nn.Linear(3, 1), nn.Linear(3, 1)
    wrapped.load_state_dict(plain.state_dict())
    ours = hvd.DistributedOptimizer(torch.optim.SGD(wrapped.parameters(), lr=0.1), wrapped.named_parameters())
    theirs = torch.optim.SGD(plain.parameters(), lr=0.1)
    schedulers = [torch.optim.lr_scheduler.StepLR(each, 1, 0.5) for each in (ours, theirs)]
    for _ in range(3):
        for model, optimizer in ((wrapped, ours), (plain, theirs)):
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert isinstance(ours, torch.optim.SGD)
    assert all(map(torch.equal, wrapped.state_dict().values(), plain.state_dict().values()))


@pytest.mark.usefixtures("alone")
def test_skipping_synchronisation_needs_one_to_skip() -> None:
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=0.1))
    with pytest.raises(TrainError, match="synchronize"), optimizer.skip_synchronize():
        pass
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()


@pytest.mark.usefixtures("alone")
def test_restore_goes_back_to_the_commit_whatever_was_changed_in_place() -> None:
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    state = hvd.elastic.TorchState(model, optimizer, batch=0, seen=torch.zeros(3), names=["a"])

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        state.batch += 1
        state.seen += 1
        state.names.append("b")

    step()
    state.commit()
    kept = [tensor.clone() for tensor in (*model.parameters(), *_moments(optimizer), state.seen)]
    for _ in range(2):  # twice: the first restore must not have handed out the commit itself
        step()
        state.restore()
        found = (*model.parameters(), *_moments(optimizer), state.seen)
        assert all(map(torch.equal, kept, found))
        assert (state.batch, state.names) == (1, ["a", "b"])


def _moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [entry[key] for entry in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq", "step")]


@pytest.mark.usefixtures("alone")
def test_a_run_is_entered_again_after_an_interrupt_with_the_state_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elastane.compat.horovod.session.Session.switch", lambda _self: None)
    state = hvd.elastic.ObjectState(entered=0)
    resets: list[int] = []
    state.register_reset_callbacks([lambda: resets.append(state.entered)])

    @hvd.elastic.run
    def train(state, more: int) -> int:
        state.entered += more
        if state.entered < 3:
            raise HostsUpdatedInterrupt
        return state.entered

    assert train(state, 1) == 3
    assert resets == [1, 2]


@pytest.mark.usefixtures("alone")
def test_a_run_is_entered_again_after_a_failure_with_the_last_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.compat.horovod.session.Session.recover", lambda _self, _why: None)
    state = hvd.elastic.ObjectState(batch=0)
    entered_at: list[int] = []

    @hvd.elastic.run
    def train(state) -> None:
        entered_at.append(state.batch)
        if len(entered_at) == 1:
            state.batch = 5
            state.commit()
            state.batch = 7
            raise HorovodInternalError("a worker was lost")

    train(state)
    assert entered_at == [0, 5]


@pytest.mark.usefixtures("alone")
def test_a_loss_that_nobody_can_mend_ends_the_script_with_its_cause() -> None:
    @hvd.elastic.run
    def train(_state) -> None:
        raise HorovodInternalError("connection reset")

    with pytest.raises(TrainError, match="connection reset"):
        train(hvd.elastic.ObjectState())


@pytest.mark.parametrize("place", ["", "file://{}/place"])
def test_a_stopped_run_goes_on_where_it_was_committed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    monkeypatch.setenv("ELASTANE_RUN", str(tmp_path / "run"))
    monkeypatch.setenv("ELASTANE_CHECKPOINTS", place.format(tmp_path))
    before = signal.getsignal(signal.SIGTERM)

    def session(stop_at: int | None) -> list[int]:
        hvd.init()
        state = hvd.elastic.ObjectState(batch=0)
        trained = []

        @hvd.elastic.run
        def train(state) -> None:
            while state.batch < 6:
                trained.append(state.batch)
                state.batch += 1
                if state.batch == stop_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                state.commit()

        try:
            train(state)
        except Released:
            trained.append(-1)
        hvd.shutdown()
        return trained

    try:
        assert session(4) == [0, 1, 2, 3, -1]
        assert (tmp_path / "run" / "checkpoints").exists() == (not place)
        if place:
            monkeypatch.setenv("ELASTANE_RUN", str(tmp_path / "another"))
        assert session(None) == [4, 5]
    finally:
        signal.signal(signal.SIGTERM, before)
