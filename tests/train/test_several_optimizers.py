"""Several optimizers step in turn on the same batch, with any number of workers, as they do without the library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from elastane.train.control.wishes import Wish
from train.running import alone, train

WISHES = (
    Wish(3, "resize", 3, steps=True),
    Wish(0, "kill", settled=True),
    Wish(0, "resize", 1, settled=True),
)


def numbers(path: Path) -> list[float]:
    return [float(value) for value in path.read_text().split()]


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


@pytest.mark.parametrize("pattern", ["gan", "critic", "twice"])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_it_trains_as_the_plain_script_does(tmp_path: Path, pattern: str, workers: int) -> None:
    out = tmp_path / "out"
    arguments = (str(out), "--epochs=3", f"--pattern={pattern}")
    done = train("gan.py", tmp_path / "run", *arguments, workers=workers)
    assert done.ended.outcome == "finished", done.ended
    assert numbers(out) == close(plain(3, pattern))


@pytest.mark.parametrize(
    "arguments", [["--accumulate=4"], ["--piece=5"], ["--sum"]], ids=["accumulated", "in_pieces", "summed"]
)
@pytest.mark.parametrize("workers", [1, 3])
def test_it_does_so_in_several_parts_and_with_sums(tmp_path: Path, arguments: list[str], workers: int) -> None:
    out = tmp_path / "out"
    done = train("gan.py", tmp_path / "run", str(out), "--epochs=3", *arguments, workers=workers)
    assert done.ended.outcome == "finished", done.ended
    expected = plain(3, reduction="sum" if "--sum" in arguments else "mean")
    assert numbers(out) == close(expected)


@pytest.mark.parametrize("pattern", ["gan", "critic"])
def test_it_does_so_through_resizes_and_a_kill(tmp_path: Path, pattern: str) -> None:
    out = tmp_path / "out"
    arguments = (str(out), "--pause=0.01", f"--pattern={pattern}")
    done = train("gan.py", tmp_path / "run", *arguments, wishes=WISHES)
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 1
    found = numbers(out)
    assert found == close(plain(int(found[0]), pattern))


def test_consistent_mode_gives_the_same_bits_for_1_2_and_4_workers_through_resizes_and_a_kill(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    done = train(
        "gan.py", tmp_path / "run", str(out), "--norm", "--pause=0.002", wishes=WISHES, mode="consistent"
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


def test_consistent_mode_trains_as_the_plain_script_does(tmp_path: Path) -> None:
    for pattern in ("gan", "critic", "twice"):
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
