"""Loads the digits that ship with scikit-learn, split the same way for every script that trains on them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

_TRAIN = 1500


@dataclass(frozen=True)
class Digits:
    """Images of 8 × 8 grey values between 0 and 1, each with its digit, for training and for testing."""

    train: TensorDataset
    test: tuple[Tensor, Tensor]

    def accuracy(self, model: nn.Module) -> float:
        """Returns the fraction of test images that a model classifies correctly."""
        model.eval()
        with torch.no_grad():
            right = model(self.test[0]).argmax(1) == self.test[1]
        return float(right.float().mean())


def load() -> Digits:
    """Loads the images: the first 1500 for training, the rest for testing."""
    table = np.loadtxt(_file(), delimiter=",", dtype=np.float32)
    images = torch.tensor(table[:, :-1]).view(-1, 8, 8) / 16.0
    labels = torch.tensor(table[:, -1]).long()
    return Digits(TensorDataset(images[:_TRAIN], labels[:_TRAIN]), (images[_TRAIN:], labels[_TRAIN:]))


def _file() -> Path:
    # Importing all of scikit-learn for one table would cost every newcomer more than a second of a core.
    spec = find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
