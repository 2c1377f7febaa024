"""Trains a recurrent network on digits, row by row, without any scheduler's library: a command."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from elastane.demo.scripts import digits, options
from elastane.demo.scripts.score import write as write_score


class RowReader(nn.Module):
    """A GRU over the eight rows of an image, classified by its last hidden state."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.memory = nn.GRU(8, width, batch_first=True)
        self.answer = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Returns the scores of the ten digits."""
        _, last = self.memory(images)
        scores: Tensor = self.answer(last[0])
        return scores


def main() -> None:
    """Trains the network in this one process and prints its test accuracy after every epoch."""
    said, data = options.parse(), digits.load()
    torch.manual_seed(0)
    model = RowReader()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    loader = DataLoader(data.train, batch_size=said.batch, shuffle=True)
    for epoch in range(said.epochs):
        model.train()
        for x, y in loader:
            opt.zero_grad()
            functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
            opt.step()
        accuracy = data.accuracy(model)
        print(f"epoch {epoch}: accuracy {accuracy:.4f}", flush=True)
        write_score(epoch, accuracy)


if __name__ == "__main__":
    main()
