"""Several optimizers step in turn on the same batch, with any number of workers, as they do without the library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import TrainError
from train.running import CHANGES, alone, numbers, train


def plain(epochs: int, pattern: str = "gan", reduction: str = "mean") -> list[float]:
    """The same training without the library."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(140, 4, generator=generator) * 2.0 + 1.0
    z = torch.randn(140, 3, generator=generator)
    torch.manual_seed(0)
    net_g = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
    net_d = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    opt_d = torch.optim.Adam(net_d.parameters(), lr=0.01)
    opt_g = torch.optim.SGD(net_g.parameters(), lr=0.001 if reduction == "sum" else 0.02, momentum=0.9)
    schedule_d = torch.optim.lr_scheduler.StepLR(opt_d, 10, 0.9)
    schedule_g = torch.optim.lr_scheduler.StepLR(opt_g, 10, 0.8)

    def score(samples: torch.Tensor, real: float) -> torch.Tensor:
        wanted = torch.full((len(samples), 1), real)
        return F.binary_cross_entropy_with_logits(net_d(samples), wanted, reduction=reduction)

    total = 0.0
    for _ in range(epochs):
        for step, (real, noise) in enumerate(zip(x.split(32), z.split(32), strict=True)):
            for _ in range(2 if pattern == "twice" else 1):
                net_d.zero_grad()
                score(real, 1.0).backward()
                fake = net_g(noise)
                score(fake.detach(), 0.0).backward()
                opt_d.step()
                schedule_d.step()
            if pattern != "critic" or step % 3 == 2:
                opt_g.zero_grad()
                score(fake, 1.0).backward()
                torch.nn.utils.clip_grad_norm_(net_g.parameters(), 0.5)
                opt_g.step()
                schedule_g.step()
                total = float(fake.detach().sum())
    tensors = [t.reshape(-1) for net in (net_g, net_d) for t in net.state_dict().values()]
    rates = [schedule_d.last_epoch, schedule_g.last_epoch]
    return [epochs, 5 * epochs, *rates, total, *torch.cat(tensors).tolist()]


def close(values: list[float]) -> object:
    return pytest.approx(values, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("workers", "pattern"), [(1, "gan"), (2, "gan"), (3, "gan"), (2, "critic"), (3, "critic"), (2, "twice")]
)
def test_it_trains_as_the_plain_script_does(tmp_path: Path, workers: int, pattern: str) -> None:
    out = tmp_path / "out"
    arguments = (str(out), "--epochs=3", f"--pattern={pattern}")
    done = train("gan.py", tmp_path / "run", *arguments, workers=workers)
    assert done.ended.outcome == "finished", done.ended
    assert numbers(out) == close(plain(3, pattern))


@pytest.mark.parametrize(
    ("workers", "arguments"),
    [(1, ["--accumulate=4"]), (3, ["--accumulate=4"]), (1, ["--piece=5"]), (3, ["--piece=5"]), (2, ["--sum"])],
    ids=["accumulated_1", "accumulated_3", "in_pieces_1", "in_pieces_3", "summed_2"],
)
def test_it_does_so_in_several_parts_and_with_sums(tmp_path: Path, workers: int, arguments: list[str]) -> None:
    out = tmp_path / "out"
    done = train("gan.py", tmp_path / "run", str(out), "--epochs=3", *arguments, workers=workers)
    assert done.ended.outcome == "finished", done.ended
    expected = plain(3, reduction="sum" if "--sum" in arguments else "mean")
    assert numbers(out) == close(expected)


@pytest.mark.parametrize("pattern", ["gan", "critic"])
def test_it_does_so_through_resizes_and_a_kill(tmp_path: Path, pattern: str) -> None:
    out = tmp_path / "out"
    arguments = (str(out), "--pause=0.01", f"--pattern={pattern}")
    done = train("gan.py", tmp_path / "run", *arguments, wishes=CHANGES)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    found = numbers(out)
    assert found == close(plain(int(found[0]), pattern))


@pytest.mark.slow
def test_consistent_mode_gives_the_same_bits_for_1_2_and_4_workers_through_resizes_and_a_kill(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    done = train(
        "gan.py", tmp_path / "run", str(out), "--norm", "--pause=0.002", wishes=CHANGES, mode="consistent"
    )
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    epochs = f"--epochs={int(numbers(out)[0])}"
    alone("gan.py", tmp_path / "alone", str(tmp_path / "1"), "--norm", epochs, mode="consistent")
    assert (tmp_path / "1").read_text() == out.read_text()
    for workers in (2, 4):
        other = tmp_path / str(workers)
        train(
            "gan.py", tmp_path / f"{workers}w", str(other), "--norm", epochs, workers=workers, mode="consistent"
        )
        assert other.read_text() == out.read_text()


def test_it_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for epochs in (2, 3):
        alone("gan.py", tmp_path / "run", str(out), f"--epochs={epochs}")
        assert numbers(out) == close(plain(epochs))


def test_consistent_mode_trains_as_the_plain_script_does(tmp_path: Path) -> None:
    for pattern in ("critic", "twice"):
        out = tmp_path / pattern
        alone(
            "gan.py",
            tmp_path / f"{pattern}_run",
            str(out),
            "--epochs=2",
            f"--pattern={pattern}",
            mode="consistent",
        )
        assert numbers(out) == close(plain(2, pattern))


@pytest.mark.parametrize("mode", ["fixed", "consistent"])
def test_a_worker_that_dies_between_two_optimizers_steps_changes_nothing(tmp_path: Path, mode: str) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    done = train("gan.py", tmp_path / "run", str(out), "--epochs=3", "--die=4", workers=3, mode=mode)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    assert numbers(out) == close(plain(3))
    if mode == "consistent":
        alone("gan.py", tmp_path / "alone", str(other), "--epochs=3", mode=mode)
        assert other.read_text() == out.read_text()


Pair = tuple[et.Job, nn.Module, torch.optim.Optimizer, nn.Module, torch.optim.Optimizer]


def begin(run: Path, monkeypatch: pytest.MonkeyPatch, mode: str = "fixed") -> et.Job:
    monkeypatch.setattr("elastane.train.script.process.ProcessHooks.install", lambda hooks: None)
    return et.init(mode, run=run, checkpoint_every=3600.0)


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    job = begin(tmp_path / "run", monkeypatch)
    torch.manual_seed(0)
    first, second = job.model(nn.Linear(1, 1)), job.model(nn.Linear(1, 1))
    return (
        job,
        first,
        job.optimizer(torch.optim.SGD(first.parameters(), lr=0.1)),
        second,
        job.optimizer(torch.optim.SGD(second.parameters(), lr=0.1)),
    )


def ones(job: et.Job, **limits: Any) -> Any:
    return job.loader(TensorDataset(torch.ones(8, 1)), batch_size=4, **limits)


def test_one_backward_for_two_optimizers_is_one_clear_line(pair: Pair) -> None:
    job, first, opt1, second, opt2 = pair
    turns = iter(ones(job))
    (x,) = next(turns)
    second(first(x)).sum().backward()
    opt1.step()
    with pytest.raises(TrainError, match=r"one backward\(\) was followed by step\(\) of two optimizers"):
        opt2.step()


def test_parts_of_a_batch_that_step_differently_are_one_clear_line(pair: Pair) -> None:
    job, first, opt1, _, _ = pair
    turns = iter(ones(job, max_per_worker=2))
    (x,) = next(turns)
    first(x).sum().backward()
    opt1.step()
    (x,) = next(turns)
    first(x).sum().backward()
    opt1.step()
    first(x).sum().backward()
    opt1.step()
    with pytest.raises(TrainError, match="parts of one batch do not step the same optimizers"):
        next(turns)


def test_a_batch_without_any_step_is_one_clear_line(pair: Pair) -> None:
    turns = iter(ones(pair[0]))
    next(turns)
    with pytest.raises(TrainError, match=r"ended without step\(\) of any optimizer"):
        next(turns)


def test_a_break_behind_the_last_step_ends_the_step(pair: Pair) -> None:
    job, first, opt1, second, opt2 = pair
    data = ones(job)
    for _ in job.epochs(2):
        for (x,) in data:
            for net, opt in ((first, opt1), (second, opt2)):
                opt.zero_grad()
                net(x).sum().backward()
                opt.step()
            break
    assert job.step == 2
    assert (data.position, data.passes) == (8, 0)


def test_a_break_between_two_steps_of_several_parts_is_one_clear_line(pair: Pair) -> None:
    job, first, opt1, _, _ = pair
    data = ones(job, max_per_worker=2)
    for (x,) in data:
        first(x).sum().backward()
        opt1.step()
        break
    with pytest.raises(TrainError, match="left in the middle of a step"):
        next(iter(data))


@pytest.mark.parametrize("parts", [4, 2])
def test_clipping_is_for_the_optimizer_whose_parameters_it_is_given(pair: Pair, parts: int) -> None:
    job, first, opt1, second, opt2 = pair
    before = [[p.detach().clone() for p in net.parameters()] for net in (first, second)]
    for (x,) in ones(job, max_per_worker=parts):
        for net, opt in ((first, opt1), (second, opt2)):
            opt.zero_grad()
            (100 * net(x)).sum().backward()
            if net is second:
                torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            opt.step()
        if job.step:
            break
    moved = [
        torch.cat([(p - old).flatten() for p, old in zip(net.parameters(), was, strict=True)]).norm().item()
        for net, was in zip((first, second), before, strict=True)
    ]
    rates = [opt.param_groups[0]["lr"] for opt in (opt1, opt2)]
    assert moved[0] / rates[0] > 10.0
    assert moved[1] / rates[1] == pytest.approx(0.5 * job.step, rel=0.01)


def test_clipping_over_several_optimizers_is_one_clear_line(pair: Pair) -> None:
    job, first, _, second, _ = pair
    with pytest.raises(TrainError, match="those of one of them at a time"):
        job.clip_grad_norm_([*first.parameters(), *second.parameters()], 0.5)


def test_what_needs_one_optimizer_is_one_clear_line(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, first, *_ = pair
    with pytest.raises(TrainError, match="works with one optimizer; train in bfloat16"):
        job.scaler(torch.amp.GradScaler("cpu"))
    with pytest.raises(TrainError, match="give each a name of its own"):
        job.model(nn.Linear(1, 1), name="model")
    next(iter(ones(job)))
    with pytest.raises(TrainError, match="when training had begun"):
        job.optimizer(torch.optim.SGD(first.parameters(), lr=0.1))
    adaptive = begin(tmp_path / "adaptive", monkeypatch, "adaptive")
    for _ in range(2):
        adaptive.optimizer(torch.optim.SGD(adaptive.model(nn.Linear(1, 1)).parameters(), lr=0.1))
    with pytest.raises(TrainError, match="adaptive works with one optimizer"):
        next(iter(ones(adaptive)))
    chained = begin(tmp_path / "chained", monkeypatch, "adaptive")
    models = [chained.model(nn.Linear(1, 1)), chained.model(nn.Linear(1, 1))]
    chained.optimizer(et.Chained(*(torch.optim.SGD(model.parameters(), lr=0.1) for model in models)))
    with pytest.raises(TrainError, match="adaptive works with one optimizer"):
        next(iter(ones(chained)))
    mixed = begin(tmp_path / "mixed", monkeypatch)
    models = [mixed.model(nn.Linear(1, 1)), mixed.model(nn.Linear(1, 1), loss="sum")]
    mixed.optimizer(torch.optim.SGD([p for m in models for p in m.parameters()], lr=0.1), repeats=True)
    with pytest.raises(TrainError, match="some have 'mean' and some 'sum'"):
        next(iter(ones(mixed)))


def test_workers_that_step_differently_are_one_clear_line(tmp_path: Path) -> None:
    arguments = (str(tmp_path / "out"), "--epochs=3", "--pattern=ranks")
    done = train("gan.py", tmp_path / "run", *arguments, workers=2)
    assert done.ended.outcome == "failed"
    assert "workers do not step the same optimizers in the same order" in done.ended.cause


def test_one_optimizer_may_step_several_times_if_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = begin(tmp_path / "run", monkeypatch)
    model = job.model(nn.Linear(1, 1, bias=False))
    opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1), repeats=True)
    with torch.no_grad():
        model.weight.fill_(2.0)
    for _ in job.epochs(1):
        for (x,) in ones(job, max_per_worker=2):
            for _ in range(3):
                opt.zero_grad()
                model(x).square().mean().backward()
                opt.step()
    assert job.step == 2
    assert model.weight.item() == pytest.approx(2.0 * 0.8**6)


def test_models_can_be_frozen_in_turn(pair: Pair) -> None:
    job, first, opt1, second, opt2 = pair
    for _ in job.epochs(2):
        for (x,) in ones(job, max_per_worker=2) if job.epoch == 0 else ():
            second.requires_grad_(False)
            opt1.zero_grad()
            second(first(x)).square().mean().backward()
            opt1.step()
            second.requires_grad_(True)
            first.requires_grad_(False)
            opt2.zero_grad()
            second(first(x)).square().mean().backward()
            opt2.step()
            first.requires_grad_(True)
    assert job.step == 2


def trained_by_a_chain(job: et.Job | None) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 3), nn.Tanh(), nn.Linear(3, 1))
    both = [torch.optim.SGD(model[0].parameters(), lr=0.1), torch.optim.Adam(model[2].parameters(), lr=0.1)]
    schedule = torch.optim.lr_scheduler.StepLR(both[0], 3, 0.5)
    steps: Any = [both[0].step, both[1].step]
    data: Any = [(torch.ones(4, 1),)] * 2
    if job is not None:
        job.model(model)
        steps = [job.optimizer(et.Chained(*both)).step]
        job.scheduler(schedule)
        data = ones(job, max_per_worker=2)
    for _ in job.epochs(4) if job is not None else range(4):
        for (x,) in data:
            model.zero_grad()
            model(x).square().mean().backward()
            for step in steps:
                step()
            schedule.step()
    return [value for p in model.parameters() for value in p.detach().reshape(-1).tolist()]


def test_optimizers_chained_step_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = begin(tmp_path / "run", monkeypatch)
    assert trained_by_a_chain(job) == pytest.approx(trained_by_a_chain(None), rel=1e-5)
    taken = job._session.state.take()
    job._session.state.put(taken)
    with pytest.raises(TrainError, match="not of one that is in it"):
        job._session.state.optimizers[0].optimizers[0].step()  # type: ignore[attr-defined]
    with pytest.raises(TrainError, match="different parameters"):
        et.Chained(*job._session.state.optimizers, *job._session.state.optimizers)
