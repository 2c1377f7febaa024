"""An Accelerate training run by test_accelerate.py: [--unfreeze] FOUND [STEPS]."""

from __future__ import annotations

import sys

import torch
from phases import UNFROZEN, Phases
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et
from elastane.train.accelerate import Accelerator

frozen = "--unfreeze" in sys.argv
found, *rest = (word for word in sys.argv[1:] if word != "--unfreeze")
points = torch.randn(58, 4, generator=torch.Generator().manual_seed(1))
data = TensorDataset(points, points[:, :3].argmax(1))
accelerator = Accelerator(job=et.init("consistent", virtual=4), gradient_accumulation_steps=2)
phases = Phases(accelerator.job, int(rest[0]) if rest else None)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 3))
model[0].requires_grad_(not frozen)
opt = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.999)
model, opt, train, test, scheduler = accelerator.prepare(
    model, opt, DataLoader(data, 8, shuffle=True), DataLoader(data, 58), scheduler
)


def fit() -> None:
    for _epoch in range(100_000):
        model.train()
        for x, y in train:
            if accelerator.job.step == UNFROZEN:
                model[0].requires_grad_(True)
            with accelerator.accumulate(model):
                accelerator.backward(nn.functional.cross_entropy(model(x), y))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                opt.step()
                scheduler.step()
                opt.zero_grad()
            if accelerator.sync_gradients and phases.stepped():
                return
        model.eval()
        for x, y in test:
            guesses, labels = accelerator.gather_for_metrics((model(x).argmax(1), y))
            assert len(guesses) == len(labels) == 58


fit()
accelerator.wait_for_everyone()
phases.write(found, accelerator.unwrap_model(model), rate=scheduler.get_last_lr())
accelerator.end_training()
