"""A small GPT over letters, trained with micro-steps: several small batches make one optimizer step.

elastane train --workers 1 --resize 3:10s --chaos kill:20s examples/micro_steps.py
python examples/micro_steps.py --epochs 2                               # alone

The text is generated: sums such as "12+9=21;", which the model learns to complete.
The lines marked "# elastane" are those that make it elastic.
"""

import argparse
import random

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et  # elastane

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--batch", type=int, default=16, help="of one micro-step, all workers together")
parser.add_argument("--micro-steps", type=int, default=4, help="per optimizer step")
parser.add_argument("--blocks", type=int, default=1024, help="pieces of text to train on")
parser.add_argument("--mode", help="fixed or consistent")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

LETTERS, LENGTH = "0123456789+=;", 32


def written(blocks: int, seed: int) -> torch.Tensor:
    """Pieces of a long text of sums."""
    chance, text = random.Random(seed), ""
    while len(text) < blocks * (LENGTH + 1):
        one, other = chance.randrange(20), chance.randrange(20)
        text += f"{one}+{other}={one + other};"
    numbers = [LETTERS.index(letter) for letter in text[: blocks * (LENGTH + 1)]]
    return torch.tensor(numbers).view(blocks, LENGTH + 1)


class GPT(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.letters, self.places = nn.Embedding(len(LETTERS), width), nn.Embedding(LENGTH, width)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(LETTERS))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        seen = self.letters(text) + self.places.weight
        return self.head(self.layers(seen, mask=self.mask, is_causal=True))


def loss_of(text: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def test_loss() -> float:
    return float(loss_of(test))


train, test = TensorDataset(written(options.blocks, 0)), written(64, 1)

job = et.init(options.mode, seed=options.seed)  # elastane
torch.manual_seed(options.seed)
model = job.model(GPT())  # elastane
opt = job.optimizer(torch.optim.AdamW(model.parameters(), lr=3e-3))  # elastane
data = job.loader(train, batch_size=options.batch)  # elastane
job.accumulate(options.micro_steps)  # elastane
for epoch in job.epochs(options.epochs):  # elastane
    for (batch,) in data:
        loss = loss_of(batch) / options.micro_steps
        loss.backward()
        if job.step_due:  # elastane
            job.clip_grad_norm_(model.parameters(), 1.0)  # elastane
            opt.step()
            opt.zero_grad()
            job.report(loss=loss * options.micro_steps)  # elastane
    score = job.evaluate(test_loss)  # elastane
    job.print(f"epoch {epoch}: loss {score:.4f} with {job.world} workers")  # elastane
