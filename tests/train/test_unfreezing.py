"""Parameters that are frozen, unfrozen or added while training goes on are trained as without the library."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.errors import TrainError
from train.running import alone, train

WISHES = (
    Wish(3, "resize", 3, steps=True),
    Wish(0, "kill", settled=True),
    Wish(18, "resize", 1, steps=True),  # after the body was unfrozen
    Wish(0, "resize", 3, settled=True),
    Wish(0, "kill-leader", settled=True),
    Wish(44, "resize", 2, steps=True),  # after the head was frozen
    Wish(0, "resize", 3, settled=True),
)
PATIENT = Settings(workers=1, lease_s=60.0, hang_floor_s=60.0, join_patience_s=60.0)
"""However busy the machine is, nobody is lost but by the kills, so three workers are there in the end."""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["flags", "group"])
def test_unfreezing_gives_the_same_bits_alone_and_through_resizes_and_kills(tmp_path: Path, how: str) -> None:
    plain, elastic = tmp_path / "plain", tmp_path / "elastic"
    done = train(
        "unfreezing.py",
        tmp_path / "run",
        str(elastic),
        how,
        "--pause=0.01",
        wishes=WISHES,
        mode="consistent",
        settings=PATIENT,
    )
    assert done.ended.outcome == "finished", done.ended
    assert len(done.lost) == 2
    epochs = elastic.read_text().split()[1]
    alone("unfreezing.py", tmp_path / "alone", str(plain), how, f"--epochs={epochs}", mode="consistent")
    assert elastic.read_text() == plain.read_text()
    assert plain.read_text().split()[2:] == ["True", "True"]  # the body was trained, and the head no more
    assert len({path.read_text() for path in of_each(elastic)}) == 1


@pytest.mark.parametrize("mode", ["fixed", "adaptive"])
def test_replicas_stay_equal_when_layers_are_unfrozen(tmp_path: Path, mode: str) -> None:
    out = str(tmp_path / "out")
    done = train("unfreezing.py", tmp_path / "run", out, "group", wishes=WISHES, mode=mode, settings=PATIENT)
    assert done.ended.outcome == "finished", done.ended
    assert not [event for event in done.events if type(event).__name__ == "Diverged"]
    assert (tmp_path / "out").read_text().split()[2:] == ["True", "True"]
    assert len({path.read_text() for path in of_each(tmp_path / "out")}) == 1


def test_a_worker_that_alone_unfreezes_ends_the_job_with_one_line(tmp_path: Path) -> None:
    arguments = (str(tmp_path / "out"), "flags", "--epochs=4", "--rank=1")
    done = train("unfreezing.py", tmp_path / "run", *arguments, workers=2)
    assert done.ended.outcome == "failed"
    assert "workers do not train the same parameters" in done.ended.cause


def of_each(out: Path) -> list[Path]:
    """What each of the three workers that are left wrote: fingerprints are compared too seldom to show much."""
    found = sorted(out.parent.glob(f"{out.name}.*"))
    assert [path.suffix for path in found] == [".0", ".1", ".2"]
    return found


class Toy:
    """Six steps of a small network, with or without the library."""

    def __init__(self, run: Path | None, body_in_optimizer: bool) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
        self.body, self.head = self.model[0], self.model[2]
        self.body.requires_grad_(False)
        groups = [{"params": list(self.head.parameters())}]
        groups += [{"params": list(self.body.parameters())}] if body_in_optimizer else []
        self.opt = torch.optim.SGD(groups, lr=0.1, momentum=0.9, weight_decay=0.01)
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(8, 8, generator=generator)
        self.y = torch.randint(0, 2, (8,), generator=generator)
        self.job = et.init(run=run) if run is not None else None

    def train(self, change: dict[int, str]) -> list[torch.Tensor]:
        if self.job is not None:
            self.job.model(self.model)
            self.job.optimizer(self.opt)
            data = self.job.loader(TensorDataset(self.x, self.y), batch_size=8, shuffle=False)
        for epoch in self.job.epochs(6) if self.job is not None else range(6):
            self.change(change.get(epoch, ""))
            for x, y in data if self.job is not None else [(self.x, self.y)]:
                self.opt.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.opt.step()
        return [p.detach().clone() for p in self.model.parameters()]

    def change(self, what: str) -> None:
        if what == "add":
            self.body.requires_grad_(True)
            self.opt.add_param_group({"params": self.body.parameters(), "lr": 0.05})
        elif what == "unfreeze":
            self.body.requires_grad_(True)
        elif what == "freeze":
            self.head.requires_grad_(False)
        elif what == "replace":
            self.model[0] = nn.Linear(8, 8)
            self.opt.add_param_group({"params": self.model[0].parameters()})


@pytest.mark.parametrize("change", [{2: "add"}, {2: "unfreeze"}, {2: "unfreeze", 4: "freeze"}])
def test_training_goes_as_without_the_library(tmp_path: Path, change: dict[int, str]) -> None:
    there = "add" not in change.values()
    plain = Toy(None, there).train(change)
    ours = Toy(tmp_path, there).train(change)
    for one, other in zip(plain, ours, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-7)
    # What was changed last made a difference, so its being left out would be seen.
    last = max(change)
    without = Toy(None, there).train({step: what for step, what in change.items() if step != last})
    assert not all(torch.allclose(one, other, rtol=1e-3) for one, other in zip(plain, without, strict=True))


def test_a_layer_that_did_not_exist_at_the_start_is_refused(tmp_path: Path) -> None:
    toy = Toy(tmp_path, False)
    with pytest.raises(TrainError, match="did not exist when training began"):
        toy.train({2: "replace"})
    toy.opt.param_groups.pop()  # what is left of the job is saved when this process ends


def test_zero_grad_drops_gradients_that_nobody_reduces(tmp_path: Path) -> None:
    toy = Toy(tmp_path, False)
    toy.train({})
    toy.opt.param_groups.append({"params": [toy.body.weight]})
    toy.body.weight.grad = torch.ones(8, 8)
    toy.opt.zero_grad()
    assert toy.body.weight.grad is None


def test_a_lazy_layer_has_to_be_materialised_first(tmp_path: Path) -> None:
    job = et.init(run=tmp_path)
    model = job.model(nn.Sequential(nn.LazyLinear(4)))
    job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(TrainError, match="has no values yet"):
        next(iter(job.epochs(1)))
