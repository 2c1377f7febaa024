"""A variational autoencoder on the digits that ship with scikit-learn; its loss is a sum over samples.

elastane train --workers 1 --resize 3:10s,1:30s --chaos kill:20s examples/vae.py
python examples/vae.py --epochs 5                                       # alone

The lines marked "# elastane" are those that make it elastic.  ``loss="sum"`` tells the library not to take the loss
for a mean, which most are.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et  # elastane

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--batch", type=int, default=64, help="of all workers together")
parser.add_argument("--mode", help="fixed, adaptive or consistent")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

images = torch.tensor(load_digits().data, dtype=torch.float32) / 16.0
train, test = TensorDataset(images[:1500]), images[1500:]


class VAE(nn.Module):
    """64 pixels, through 8 random numbers, to 64 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.mean, self.log_variance = nn.Linear(64, 128), nn.Linear(128, 8), nn.Linear(128, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        inner = F.relu(self.inner(x))
        mean, log_variance = self.mean(inner), self.log_variance(inner)
        noise = torch.randn_like(mean) if self.training else torch.zeros_like(mean)
        return self.decoder(mean + noise * torch.exp(0.5 * log_variance)), mean, log_variance


def loss_of(x: torch.Tensor) -> torch.Tensor:
    pixels, mean, log_variance = model(x)
    rebuilt = F.binary_cross_entropy_with_logits(pixels, x, reduction="sum")
    return rebuilt - 0.5 * torch.sum(1 + log_variance - mean**2 - log_variance.exp())


def test_loss() -> float:
    model.eval()
    return float(loss_of(test)) / len(test)


job = et.init(options.mode, seed=options.seed)  # elastane
torch.manual_seed(options.seed)
model = job.model(VAE(), loss="sum")  # elastane
opt = job.optimizer(torch.optim.Adam(model.parameters(), lr=2e-3))  # elastane
data = job.loader(train, batch_size=options.batch, max_batch_size=512)  # elastane
for epoch in job.epochs(options.epochs):  # elastane
    for (x,) in data:
        opt.zero_grad()
        loss = loss_of(x)
        loss.backward()
        opt.step()
        job.report(loss=loss / len(x))  # elastane
    score = job.evaluate(test_loss)  # elastane
    job.print(f"epoch {epoch}: loss {score:.3f} per image with {job.world} workers")  # elastane
