"""An Elastic Horovod script, without Horovod: only the import differs from one written for it.

elastane train --workers 2 --resize 3:5s,1:10s --chaos kill:7s examples/horovod_digits.py
torchrun --nproc-per-node 2 examples/horovod_digits.py
python examples/horovod_digits.py
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import elastane.compat.horovod as hvd

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--batch", type=int, default=32, help="per worker, as usual with Horovod")
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16.0
labels = torch.tensor(digits.target)
train_set, test = TensorDataset(images[:1500], labels[:1500]), (images[1500:], labels[1500:])

hvd.init()
torch.manual_seed(options.seed)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9))
sampler = hvd.elastic.ElasticSampler(train_set, seed=options.seed, batch_size=options.batch)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)


def scale_learning_rate() -> None:
    for group in optimizer.param_groups:
        group["lr"] = options.lr * hvd.size() ** 0.5


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    while state.epoch < options.epochs:
        loader = DataLoader(train_set, batch_size=options.batch, sampler=sampler)
        for index, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            sampler.record_batch(index, options.batch)
            state.commit()
        right = (model(test[0]).argmax(1) == test[1]).float().mean()
        if hvd.rank() == 0:
            seen = len(sampler.processed_indices)
            text = f"epoch {state.epoch}: accuracy {right:.3f} after {seen} samples, {hvd.size()} workers"
            print(text, flush=True)
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        state.commit()


state.register_reset_callbacks([scale_learning_rate])
train(state)
