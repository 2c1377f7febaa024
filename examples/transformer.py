"""A small transformer that learns to write the sentences of a made-up grammar.

elastane train --workers 2 --resize 3:10s --chaos kill-leader:15s examples/transformer.py
elastane train --workers 2 --mode consistent examples/transformer.py    # the same bits with any number of workers
python examples/transformer.py --epochs 3                               # alone

The verb agrees with its subject, which may stand five words before it: the model must look back.
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
parser.add_argument("--batch", type=int, default=64, help="of all workers together")
parser.add_argument("--sentences", type=int, default=4096)
parser.add_argument("--mode", help="fixed or consistent; adaptive would leave the LR schedule unfinished")
options = parser.parse_args()

NOUNS = {"cat": "cats", "dog": "dogs", "bird": "birds", "child": "children"}
VERBS = {"sees": "see", "likes": "like", "follows": "follow"}
WORDS = sorted({"the", "small", "old", "near", ".", *NOUNS, *NOUNS.values(), *VERBS, *VERBS.values()})
LENGTH = 12


def sentence(chance: random.Random) -> list[int]:
    """Like "the small cats near the old dog see the child .", filled up with full stops."""

    def noun() -> tuple[list[str], int]:
        adjective, number = chance.choice(["small", "old", ""]), chance.randrange(2)
        word = chance.choice(list(NOUNS.items()))[number]
        return [word for word in ("the", adjective, word) if word], number

    subject, number = noun()
    place = ["near", *noun()[0]] if chance.random() < 0.5 else []
    verb = chance.choice(list(VERBS.items()))[number]
    words = [*subject, *place, verb, *noun()[0], "."]
    return [WORDS.index(word) for word in words + ["."] * (LENGTH - len(words))]


class Writer(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.1, batch_first=True)
        self.words, self.places = nn.Embedding(len(WORDS), width), nn.Embedding(LENGTH, width)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(WORDS))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH - 1))

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        seen = self.words(text) + self.places.weight[: text.shape[1]]
        return self.head(self.layers(seen, mask=self.mask, is_causal=True))


def loss_of(text: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())


def perplexity() -> float:
    model.eval()
    return float(loss_of(test).exp())


text = torch.tensor([sentence(random.Random(number)) for number in range(options.sentences + 512)])
train, test = TensorDataset(text[:-512]), text[-512:]

job = et.init(options.mode)  # elastane
torch.manual_seed(0)
model = job.model(Writer())  # elastane
opt = job.optimizer(torch.optim.AdamW(model.parameters()), max_grad_norm=1.0)  # elastane
data = job.loader(train, batch_size=options.batch)  # elastane
cycle = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, options.epochs * len(data))
schedule = job.scheduler(cycle)  # elastane
for epoch in job.epochs(options.epochs):  # elastane
    for (batch,) in data:
        opt.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        opt.step()
        schedule.step()
        job.report(loss=loss)  # elastane
    score = job.evaluate(perplexity)  # elastane
    job.print(f"epoch {epoch}: perplexity {score:.3f} with {job.world} workers")  # elastane
