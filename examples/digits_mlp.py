"""A small network on the digits that ship with scikit-learn: the shortest elastic script.

elastane train --workers 2 --resize 4:5s,1:10s examples/digits_mlp.py
python examples/digits_mlp.py                       # alone, without anything around it
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--batch", type=int, default=64)
parser.add_argument("--mode", default=None, help="fixed, adaptive or consistent")
options = parser.parse_args()

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16.0
labels = torch.tensor(digits.target)
train, test = TensorDataset(images[:1500], labels[:1500]), (images[1500:], labels[1500:])

job = et.init(options.mode)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
model = job.model(net)
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
data = job.loader(train, batch_size=options.batch, max_batch_size=1024)


def accuracy() -> float:
    model.eval()
    return float((model(test[0]).argmax(1) == test[1]).float().mean())


for epoch in job.epochs(options.epochs):
    for x, y in data:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        job.report(loss=loss)
    score = job.evaluate(accuracy)
    job.print(f"epoch {epoch}: accuracy {score:.3f} with {job.world} workers, batch {job.batch_size}")
