"""Trains a model with the peculiarities that are named, and writes a hash of every bit of the result."""

import argparse
import hashlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, parametrizations
from torch.utils.checkpoint import checkpoint
from torch.utils.data import TensorDataset

import elastane.train as et

TOKENS = torch.arange(256) % 16
LABELS = (TOKENS * 7 + 3) % 16
BATCH = 32


class Net(nn.Module):
    """A small network with BatchNorm, an embedding whose table may be tied, and a layer that is not always used."""

    def __init__(self, traits: frozenset[str]) -> None:
        super().__init__()
        self.traits = traits
        self.table = nn.Embedding(16, 8, sparse=bool({"sparse_sgd", "sparse_adam"} & traits))
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Tanh())
        self.middle = nn.Linear(8, 8)
        self.spare = nn.Linear(8, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.register_buffer("average", torch.zeros(8, dtype=torch.float64))
        self.register_buffer("turns", torch.tensor([1.0 + 0.5j]))
        if "tied" in traits:
            self.head.weight = self.table.weight
        if "weight_norm" in traits:
            parametrizations.weight_norm(self.middle)
        if "spectral_norm" in traits:
            parametrizations.spectral_norm(self.spare)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        if "new_buffers" in self.traits:  # another tensor each time
            self.average = 0.9 * self.average + 0.1 * x.detach().double().mean(0)
            self.turns = self.turns * (0.9 + 0.1j)
        if "checkpoint" in self.traits:
            x = checkpoint(self.body, x, use_reentrant=False)
        elif "checkpoint_reentrant" in self.traits:
            x = checkpoint(self.body, x, use_reentrant=True)
        else:
            x = self.body(x)
        x = self.middle(x)
        if "sometimes" not in self.traits or int(tokens.sum()) % 3:
            x = x + self.spare(x)
        return self.head(x)


def optimizer_of(net: Net) -> torch.optim.Optimizer:
    if "sparse_adam" in net.traits:
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(name.startswith("table"))
        return torch.optim.SparseAdam(net.table.parameters(), lr=0.01)
    if "sparse_sgd" in net.traits:
        return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    split = list(net.parameters())
    groups = [{"params": split[:3]}, {"params": split[3:], "lr": 0.005}]
    return torch.optim.AdamW(groups, lr=0.01, weight_decay=0.1)


def one_pass(
    batches: Iterable[tuple[Tensor, Tensor]],
    net: Net,
    called: Callable[[Tensor], Tensor],
    opt: torch.optim.Optimizer,
    pause: float = 0.0,
) -> None:
    """The loop over data, the same with the library and without."""
    for inputs, wanted in batches:
        if "set_to_none" in net.traits:
            for parameter in net.parameters():
                parameter.grad = None
        elif "zeros" in net.traits:
            opt.zero_grad(set_to_none=False)
        else:
            net.zero_grad()
        F.cross_entropy(called(inputs), wanted).backward()
        if "dropped" in net.traits:
            net.middle.bias.grad = net.body[0].bias.grad = None
        if "clipped" in net.traits:
            clip_grad_norm_(net.head.parameters(), 0.05)
            clip_grad_norm_(net.body.parameters(), 0.02, norm_type=1.0)
            clip_grad_value_(net.table.parameters(), 0.001)
        opt.step()
        if "clamped" in net.traits:
            for parameter in net.head.parameters():
                parameter.data.clamp_(-0.1, 0.1)
        time.sleep(pause)


def digest_of(net: Net, opt: torch.optim.Optimizer) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(net.state_dict().items()):
        digest.update(name.encode() + tensor.numpy().tobytes())
    for _, parameter in sorted(net.named_parameters()):
        for _, value in sorted(opt.state.get(parameter, {}).items()):
            digest.update(torch.as_tensor(value).numpy().tobytes())
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("traits")
    parser.add_argument("--epochs", type=int, default=None, help="by default until RUN/enough exists")
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    torch.manual_seed(0)
    net = Net(frozenset(options.traits.split(",")))
    inside, outside = "compiled_inside" in net.traits, "compiled_outside" in net.traits
    job = et.init(checkpoint_every=0.2)
    called = model = job.model(torch.compile(net, backend="eager") if inside else net)
    if outside:
        called = torch.compile(net, backend="eager")
    opt = job.optimizer(optimizer_of(net))
    data = job.loader(TensorDataset(TOKENS, LABELS), batch_size=BATCH)
    passes = 0
    for epoch in job.epochs(options.epochs or 100_000):
        one_pass(data, net, called, opt, options.pause)
        passes = epoch + 1
        if options.epochs is None and job.evaluate((job.run / "enough").exists):
            break
    assert model is not None
    if job.is_leader:
        Path(options.out).write_text(f"{digest_of(net, opt)} {passes}")


if __name__ == "__main__":
    main()
