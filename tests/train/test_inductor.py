"""A model that inductor really compiles, from a cold cache, trains elastically like one that is not compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from elastane.train.coordinator.scripted_events import Wish
from train.running import numbers, train
from train.scripts.inductor import BATCH, RATE, data, network

WISHES = (
    Wish(3, "resize", 2, steps=True),
    Wish(0, "kill", settled=True),
    Wish(0, "resize", 1, settled=True),
)


def plain(epochs: int) -> list[float]:
    """Loss and parameters after as many epochs without a compiler, and without the library."""
    x, y = data()
    model = network()
    opt = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(epochs):
        for inputs, labels in zip(x.split(BATCH), y.split(BATCH), strict=True):
            opt.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            opt.step()
    with torch.no_grad():
        loss = float(F.cross_entropy(model(x), y))
    return [loss, *torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs g++")
def test_a_model_that_inductor_compiles_grows_loses_a_worker_and_shrinks(tmp_path: Path) -> None:
    cache, out = tmp_path / "cache", tmp_path / "out"
    done = train(
        "inductor.py",
        tmp_path / "run",
        str(out),
        wishes=WISHES,
        environment={"TORCHINDUCTOR_CACHE_DIR": str(cache), "OMP_NUM_THREADS": "1"},
    )
    assert done.ended.outcome == "finished", done.ended
    assert list(cache.rglob("*.so")), "nothing was compiled"
    # Whoever compiles says nothing for long, and is not taken for hung: the kill is the only loss.
    assert [lost.cause for lost in done.lost] == ["killed by signal 9"]
    changes = [(change.kind, change.before, change.after) for change in done.resized]
    assert changes == [("grow", 1, 2), ("recover", 2, 1), ("grow", 1, 2), ("shrink", 2, 1)]
    epochs, *found = numbers(out)
    # Sums in another order, over some hundred small steps: far less than what one step changes.
    assert found == pytest.approx(plain(int(epochs)), rel=1e-3, abs=1e-3)
