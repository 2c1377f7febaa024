"""Trains with a GradScaler where the job says; some gradients are not finite.  Writes a hash of the result."""

import hashlib
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

out, epochs = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
torch.manual_seed(0)
job = et.init(checkpoint_every=0.5)
network = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4)).to(job.device)
model = job.model(network)
opt = job.optimizer(torch.optim.AdamW(model.parameters(), lr=1e-3))
scaler = job.scaler(torch.amp.GradScaler(job.device.type, init_scale=64.0, growth_interval=5))
x = torch.randn(256, 16, generator=torch.Generator().manual_seed(1))
data = job.loader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=16)
epoch = 0
for epoch in job.epochs(epochs):  # noqa: B007
    for inputs, labels in data:
        loss = scaler.scale(F.cross_entropy(model(inputs), labels))
        loss = loss * torch.inf if job.step % 7 == 3 else loss
        opt.zero_grad()
        loss.backward()
        scaler.step(opt)
        scaler.update()
    if len(sys.argv) < 3 and job.evaluate((job.run / "enough").exists):
        break

digest = hashlib.sha256(repr(sorted(scaler.state_dict().items())).encode())
for tensor in [
    *model.state_dict().values(),
    *(value for state in opt.state.values() for value in state.values()),
]:
    digest.update(torch.as_tensor(tensor).cpu().numpy().tobytes())
if job.is_leader:
    out.write_text(f"{digest.hexdigest()} {epoch + 1} {job.device.type}")
