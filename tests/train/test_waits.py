"""A step costs its thread one wait for the device: the commit point.  Everything else stays on the device.

Where gradients travel through the host, the thread that does that waits as well: once for each bucket or exchange.
"""

from __future__ import annotations

import collections
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.device import Mark
from elastane.train.errors import TrainError
from elastane.train.worker import consensus, step_commit
from fakegpu import ranks
from fakegpu.ranks import Meeting
from train.members import become_member, nccl_like, parameters_of, staged
from train.waits import ENDED, counted

on_late = pytest.mark.parametrize("fakegpu", ["late"], indirect=True)
STEPS = 12
WARM = 4
"""Steps of which the first waits are those of a beginning: optimizer state, a first look at the loss."""


def network(job: et.Job) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 2)).to(
        job.device
    )


def job_of(mode: str, folder: Path, every_s: float = 3600.0) -> tuple[et.Job, Any, Any, Any]:
    job = et.init(mode, run=folder, checkpoint_every=every_s)
    model = job.model(network(job), loss="mean")
    opt = job.optimizer(torch.optim.AdamW(model.parameters(), lr=1e-3), max_grad_norm=1.0)
    x = torch.randn(16 * STEPS, 8)
    data = job.loader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=16, max_per_worker=8)
    return job, model, opt, data


THROUGH_HOST = {
    "fixed": {"event": 1, "lane": 1, "event in staged-lane": 2},
    "consistent": {"event": 1, "lane": 2, "event in staged-lane": 2},
}
"""Of the staged transport: one sum in two buckets, or an exchange there and one back."""


def waits_of(job: et.Job, model: Any, opt: Any, data: Any) -> list[collections.Counter[str]]:
    """The waits of each step, from behind one ``opt.step()`` to behind the next."""
    found: list[collections.Counter[str]] = []
    batches = iter(data)
    for _ in range(STEPS):
        with counted() as waits:
            for inputs, labels in batches:
                loss = F.cross_entropy(model(inputs), labels)
                loss.backward()
                opt.step()
                job.report(loss=loss)
                if job.stepped:
                    break
        found.append(waits)
    return found


@on_late
@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_one_wait_per_step_alone(fakegpu: ModuleType, mode: str, tmp_path: Path) -> None:
    job, model, opt, data = job_of(mode, tmp_path)
    assert job.device.type == "fakegpu"
    next(job.epochs(1))
    found = waits_of(job, model, opt, data)
    assert job.step == STEPS
    assert [dict(waits) for waits in found[WARM:]] == [{"event": 1}] * (STEPS - WARM)


@on_late
@pytest.mark.parametrize("overflow", [False, True])
def test_a_loss_scaler_costs_no_second_wait(fakegpu: ModuleType, overflow: bool, tmp_path: Path) -> None:
    """Whether the gradient is finite comes with the table; a step that is not is left out, and the scale halved."""
    job, model, opt, data = job_of("fixed", tmp_path)
    scaler = job.scaler(torch.amp.GradScaler("fakegpu", init_scale=8.0, growth_interval=1000))
    next(job.epochs(1))
    found, batches, last = [], iter(data), [0.0]
    for step in range(STEPS):
        before = [p.detach().cpu() for p in model.parameters()]
        with counted() as waits:
            for inputs, labels in batches:
                with torch.autocast("fakegpu", dtype=torch.float16):
                    loss = F.cross_entropy(model(inputs), labels)
                scaler.scale(loss * (float("inf") if overflow and step == STEPS - 1 else 1.0)).backward()
                scaler.step(opt)
                scaler.update()
                if job.stepped:
                    break
        found.append(dict(waits))
        last = before
    assert found[WARM:] == [{"event": 1}] * (STEPS - WARM)
    unchanged = all(torch.equal(a, p.detach().cpu()) for a, p in zip(last, model.parameters(), strict=True))
    assert unchanged == overflow
    assert scaler.get_scale() == (4.0 if overflow else 8.0)


@on_late
@pytest.mark.parametrize("seldom", ["adaptive", "digests", "checkpoints"])
def test_steps_that_do_more_cost_no_more_waits(
    fakegpu: ModuleType, seldom: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seldom == "digests":
        monkeypatch.setattr(consensus, "DIGEST_EVERY", 2)
        monkeypatch.setattr(step_commit, "DIGEST_EVERY", 2)
    every = 0.001 if seldom == "checkpoints" else 3600.0

    def body(rank: int, meeting: Meeting) -> Any:
        mode = "adaptive" if seldom == "adaptive" else "fixed"
        job, model, opt, data = job_of(mode, tmp_path / str(rank), every)
        become_member(job, rank, 2, meeting, staged)
        next(job.epochs(1))
        found = waits_of(job, model, opt, data)
        if seldom == "checkpoints":  # whose thread waits for its copies, whenever that is, and ends
            for waits in found:
                waits.pop("event in checkpoint", 0)
                waits.pop(f"event in {ENDED}", 0)
        return [dict(waits) for waits in found][WARM:]

    first, second = ranks.run(2, body)
    assert first == second == [THROUGH_HOST["fixed"]] * (STEPS - WARM)


def waits_of_two(mode: str, make: Any, folder: Path) -> list[Any]:
    def body(rank: int, meeting: Meeting) -> Any:
        job, model, opt, data = job_of(mode, folder / str(rank))
        become_member(job, rank, 2, meeting, make)
        next(job.epochs(1))
        found = [dict(waits) for waits in waits_of(job, model, opt, data)]
        adaptation = job._session.adaptation
        assert adaptation is not None
        measured = adaptation.statistics.noise.count
        return [found[WARM:], measured > 0, parameters_of(model)]

    return ranks.run(2, body)


@on_late
@pytest.mark.parametrize("make", [staged, nccl_like])
@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_one_wait_per_step_with_others(fakegpu: ModuleType, mode: str, make: Any, tmp_path: Path) -> None:
    """With BatchNorm, dropout, a clipped norm, a reported loss and (but for consistent mode) the gradient noise."""
    first, second = waits_of_two(mode, make, tmp_path)
    each = [THROUGH_HOST[mode] if make is staged else {"event": 1}] * (STEPS - WARM)
    assert first[0] == each
    assert second[0] == each
    assert first[1] == second[1] == (mode == "fixed")
    assert first[2] == second[2]


@on_late
@pytest.mark.parametrize("forgotten", ["", "check", "wait"])
def test_no_step_is_made_of_an_aborted_sum(
    fakegpu: ModuleType, forgotten: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The communicator completes an aborted sum as if all were well: without the wait or the look it would be used."""

    def body(rank: int, meeting: Meeting) -> Any:
        job, model, opt, data = job_of("fixed", tmp_path / str(rank))
        transport = become_member(job, rank, 2, meeting, nccl_like)
        next(job.epochs(1))
        # Kernels of a pretend GPU run in the caller: one that measures the gradient would wait in our place.
        job._session.loop.batching.adaptation = None
        batches = iter(data)
        while job.step < 3:
            inputs, labels = next(batches)
            F.cross_entropy(model(inputs), labels).backward()
            opt.step()
        if rank == 1:
            meeting.wait_for("seen", [0])
            return None
        if forgotten == "check":
            monkeypatch.setattr(transport, "check", lambda: None)
        reached, confirm = threading.Event(), transport.confirm

        def confirms(moment: Mark) -> None:
            if forgotten == "wait":
                transport.check()
                reached.set()
            else:
                reached.set()
                confirm(moment)

        def abort() -> None:
            reached.wait()
            transport.abort()

        monkeypatch.setattr(transport, "confirm", confirms)
        inputs, labels = next(batches)
        before = [p.detach().clone() for p in model.parameters()]
        F.cross_entropy(model(inputs), labels).backward()
        threading.Thread(target=abort, daemon=True).start()
        told = ""
        try:
            opt.step()
        except TrainError as error:
            told = str(error)
        except (ValueError, OverflowError):
            told = "a table of garbage"
        torch.accelerator.synchronize()
        untouched = all(torch.equal(a, p) for a, p in zip(before, model.parameters(), strict=True))
        meeting.reached("seen", 0)
        return untouched and "another worker was lost" in told

    assert ranks.run(2, body)[0] == (not forgotten)
