"""Two networks against each other (a small DCGAN) on the digits that ship with scikit-learn: two optimizers.

elastane train --workers 1 --resize 3:10s,1:40s --chaos kill:25s examples/gan_digits.py
elastane train --workers 3 --mode consistent examples/gan_digits.py     # the same bits with any number of workers
python examples/gan_digits.py --epochs 3                                # alone

The lines marked "# elastane" are those that make it elastic; the loop body is that of any GAN.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et  # elastane

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=60)
parser.add_argument("--batch", type=int, default=64, help="of all workers together")
parser.add_argument("--lr", type=float, default=0.001)
parser.add_argument("--mode", help="fixed or consistent")
options = parser.parse_args()

NOISE = 16
images = torch.tensor(load_digits().images, dtype=torch.float32).unsqueeze(1) / 8.0 - 1.0

torch.manual_seed(0)
generator = nn.Sequential(
    nn.Linear(NOISE, 64 * 2 * 2, bias=False),
    nn.Unflatten(1, (64, 2, 2)),
    nn.BatchNorm2d(64),
    nn.ReLU(),
    nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1, bias=False),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
    nn.Tanh(),
)
discriminator = nn.Sequential(
    nn.Conv2d(1, 32, 4, stride=2, padding=1),
    nn.LeakyReLU(0.2),
    nn.Conv2d(32, 64, 4, stride=2, padding=1, bias=False),
    nn.BatchNorm2d(64),
    nn.LeakyReLU(0.2),
    nn.Flatten(),
    nn.Linear(64 * 2 * 2, 1),
)

job = et.init(options.mode)  # elastane
net_g, net_d = (
    job.model(generator, name="generator"),
    job.model(discriminator, name="discriminator"),
)  # elastane
adam = {"lr": options.lr, "betas": (0.5, 0.999)}
opt_d = job.optimizer(torch.optim.Adam(net_d.parameters(), **adam))  # elastane
opt_g = job.optimizer(torch.optim.Adam(net_g.parameters(), **adam))  # elastane
data = job.loader(TensorDataset(images), batch_size=options.batch, drop_last=True)  # elastane


def loss_of(scores: torch.Tensor, real: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(scores, torch.full_like(scores, real))


def measure() -> dict[str, float]:
    """How far the mean and the spread of generated pixels are from those of the digits, and what is told apart."""
    net_g.eval()
    net_d.eval()
    fake = net_g(torch.randn(512, NOISE, generator=torch.Generator().manual_seed(1)))
    found = torch.cat([net_d(images[:512]), -net_d(fake)]) > 0.0
    return {
        "mean": float((fake.mean(0) - images.mean(0)).abs().mean()),
        "spread": float((fake.std(0) - images.std(0)).abs().mean()),
        "told apart": float(found.float().mean()),
    }


for epoch in job.epochs(options.epochs):  # elastane
    for (real,) in data:
        net_d.zero_grad()
        error_real = loss_of(net_d(real), 1.0)
        error_real.backward()
        fake = net_g(torch.randn(len(real), NOISE))
        error_fake = loss_of(net_d(fake.detach()), 0.0)
        error_fake.backward()
        opt_d.step()

        net_g.zero_grad()
        error = loss_of(net_d(fake), 1.0)
        error.backward()
        opt_g.step()
        job.report(loss=error_real + error_fake, generator=error)  # elastane
    scores = job.evaluate(measure)  # elastane
    job.print(f"epoch {epoch}: " + ", ".join(f"{k} {v:.3f}" for k, v in scores.items()))  # elastane
