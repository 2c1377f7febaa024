"""A framework that counts batches, on top of a job that may need several units for a step."""

from __future__ import annotations

import os
import signal
from itertools import chain
from pathlib import Path

import pytest
import torch
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.train.errors import Released
from elastane.train.script.framework_loop import WholeSteps


@pytest.fixture(autouse=True)
def _tidy(monkeypatch: pytest.MonkeyPatch):
    for name in ("ELASTANE_COORDINATOR", "ELASTANE_RUN", "ELASTANE_MODE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    deterministic = torch.are_deterministic_algorithms_enabled()
    yield
    torch.use_deterministic_algorithms(deterministic)
    for number, handler in kept.items():
        signal.signal(number, handler)


class Framework:
    """Three epochs of as many batches as the loader says there are."""

    def __init__(self, run: Path, mode: str, stop_at: int | None = None, *, meets_end: bool) -> None:
        self.job = et.init(mode, run=run, virtual=4)
        self.model = self.job.model(torch.nn.Linear(1, 1))
        self.optimizer = self.job.optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        self.data = TensorDataset(torch.arange(10.0).view(10, 1))
        self.steps = WholeSteps(self.job, self.job.loader(self.data, 4, max_per_worker=2))
        self.units: list[list[float]] = []
        self.seen: list[int] = []
        self.stop_at = stop_at
        self.meets_end = meets_end

    def fit(self) -> Framework:
        for epoch in range(3):
            if not self.steps.begin_epoch(epoch, 3):
                continue
            for count, unit in enumerate(self.steps, 1):
                self.compute(unit)
                self.steps.finish(self.optimizer.step, self.compute)
                self.seen.append(self.job.step)
                if self.job.step == self.stop_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                if count == len(self.steps) and not self.meets_end:
                    break
        self.steps.close()
        return self

    def compute(self, unit: list[torch.Tensor]) -> None:
        self.units.append(unit[0].flatten().tolist())
        self.model(unit[0]).sum().backward()


@pytest.mark.parametrize("meets_end", [True, False])
@pytest.mark.parametrize(("mode", "units"), [("fixed", 2), ("consistent", 4)])
def test_every_batch_is_one_step_and_every_sample_comes_once_in_an_epoch(
    tmp_path: Path, mode: str, units: int, meets_end: bool
) -> None:
    framework = Framework(tmp_path, mode, meets_end=meets_end).fit()
    assert framework.seen == list(range(1, 10))
    assert framework.job.epoch == 3
    each = len(framework.units) // 3
    for epoch in range(3):
        mine = framework.units[epoch * each : (epoch + 1) * each]
        assert sorted(chain(*mine)) == list(range(10))
    assert len(framework.units[0]) == 4 // units


@pytest.mark.parametrize("meets_end", [True, False])
@pytest.mark.parametrize("stop_at", [2, 3, 4])
def test_a_framework_that_begins_again_goes_on_with_the_samples_that_were_left(
    tmp_path: Path, stop_at: int, meets_end: bool
) -> None:
    first = Framework(tmp_path, "fixed", stop_at, meets_end=meets_end)
    with pytest.raises(Released):
        first.fit()
    second = Framework(tmp_path, "fixed", meets_end=meets_end).fit()
    assert first.seen + second.seen == list(range(1, 10))
    drawn = list(chain(*first.units, *second.units))
    assert sorted(drawn[:10]) == sorted(drawn[10:20]) == sorted(drawn[20:]) == list(range(10))


def test_closing_in_the_middle_of_an_epoch_leaves_the_rest_for_another_run(tmp_path: Path) -> None:
    framework = Framework(tmp_path, "fixed", meets_end=True)
    framework.steps.begin_epoch(0, 3)
    framework.compute(next(iter(framework.steps)))
    framework.steps.finish(framework.optimizer.step, framework.compute)
    framework.steps.close()
    assert framework.steps.fraction == 0.4
    assert Framework(tmp_path, "fixed", meets_end=True).fit().seen == list(range(2, 10))
