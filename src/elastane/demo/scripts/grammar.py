"""Trains a small transformer on the sentences of a made-up grammar.

The verb agrees with its subject, which may stand five words before it: the model must look back.  Its accuracy is
the fraction of verbs for which it expects the right number.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import elastane.train as et
from elastane.demo.scripts import options
from elastane.demo.scripts.score import write as write_score

NOUNS = {"cat": "cats", "dog": "dogs", "bird": "birds", "child": "children"}
VERBS = {"sees": "see", "likes": "like", "follows": "follow"}
WORDS = sorted({"the", "small", "old", "near", ".", *NOUNS, *NOUNS.values(), *VERBS, *VERBS.values()})
LENGTH, TRAIN, TEST, WIDTH = 12, 3072, 512, 48
ONE, MANY = ([WORDS.index(word) for word in words] for words in (VERBS.keys(), VERBS.values()))


def sentence(chance: random.Random) -> list[int]:
    """Draws a sentence like "the small cats near the old dog see the child .", padded with full stops."""

    def noun() -> tuple[list[str], int]:
        adjective, number = chance.choice(["small", "old", ""]), chance.randrange(2)
        word = chance.choice(list(NOUNS.items()))[number]
        return [each for each in ("the", adjective, word) if each], number

    subject, number = noun()
    place = ["near", *noun()[0]] if chance.random() < 0.5 else []
    verb = chance.choice(list(VERBS.items()))[number]
    words = [*subject, *place, verb, *noun()[0], "."]
    return [WORDS.index(word) for word in words + ["."] * (LENGTH - len(words))]


class Writer(nn.Module):
    """A causal transformer of two layers that predicts the next word."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.words, self.places = nn.Embedding(len(WORDS), WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, len(WORDS))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH - 1))

    def forward(self, text: Tensor) -> Tensor:
        """Returns the scores of the word that follows each."""
        seen = self.words(text) + self.places.weight[: text.shape[1]]
        scores: Tensor = self.head(self.layers(seen, mask=self.mask, is_causal=True))
        return scores


def agreement(model: nn.Module, text: Tensor) -> float:
    """Returns the fraction of verbs for which the model expects the right number."""
    model.eval()
    one, many = (torch.isin(text[:, 1:], torch.tensor(words)) for words in (ONE, MANY))
    with torch.no_grad():
        chances = model(text[:, :-1]).softmax(-1)
    expects_many = chances[..., MANY].sum(-1) > chances[..., ONE].sum(-1)
    verbs = one | many
    return float((expects_many[verbs] == many[verbs]).float().mean())


def main() -> None:
    """Trains the transformer elastically and prints its test accuracy after every epoch."""
    said = options.parse()
    text = torch.tensor([sentence(random.Random(number)) for number in range(TRAIN + TEST)])
    torch.manual_seed(0)
    job = et.init(said.mode)
    model = job.model(Writer())
    opt = job.optimizer(torch.optim.AdamW(model.parameters(), lr=2e-3))
    loader = job.loader(TensorDataset(text[:TRAIN]), batch_size=said.batch)
    for epoch in job.epochs(said.epochs):
        for (batch,) in loader:
            opt.zero_grad()
            loss = functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()  # type: ignore[no-untyped-call]
            opt.step()
            job.report(loss=loss)
        score = job.evaluate(lambda: {"accuracy": agreement(model, text[TRAIN:])})
        job.print(f"epoch {epoch}: accuracy {score['accuracy']:.4f}")
        if job.is_leader:
            write_score(epoch, score["accuracy"])


if __name__ == "__main__":
    main()
