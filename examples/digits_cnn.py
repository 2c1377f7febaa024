"""A small convolutional network with BatchNorm on the digits that ship with scikit-learn.

elastane train --workers 2 --resize 3:10s,1:20s --chaos kill:15s examples/digits_cnn.py
elastane train --workers 2 --mode adaptive examples/digits_cnn.py       # batch and learning rate follow the workers
python examples/digits_cnn.py --epochs 3                                # alone

The lines marked "# elastane" are those that make it elastic.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import elastane.train as et  # elastane

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=64, help="of all workers together")
parser.add_argument("--max-batch", type=int, default=512, help="how far it may grow in adaptive mode")
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--mode", help="fixed, adaptive or consistent")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16.0
labels = torch.tensor(digits.target)
train, test = TensorDataset(images[:1500], labels[:1500]), (images[1500:], labels[1500:])


def block(channels_in: int, channels_out: int) -> list[nn.Module]:
    conv = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(channels_out), nn.ReLU(), nn.MaxPool2d(2)]


torch.manual_seed(options.seed)
net = nn.Sequential(*block(1, 16), *block(16, 32), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4, 10))

job = et.init(options.mode, seed=options.seed)  # elastane
model = job.model(net)  # elastane
sgd = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=1e-4)
opt = job.optimizer(sgd)  # elastane
limits = {"max_batch_size": options.max_batch, "max_per_worker": options.max_batch}  # elastane
data = job.loader(train, batch_size=options.batch, **limits)  # elastane


def measure() -> dict[str, float]:
    model.eval()
    scores = model(test[0])
    return {
        "accuracy": float((scores.argmax(1) == test[1]).float().mean()),
        "test loss": float(F.cross_entropy(scores, test[1])),
    }


for epoch in job.epochs(options.epochs):  # elastane
    for x, y in data:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        job.report(loss=loss)  # elastane
    score = job.evaluate(measure)  # elastane
    text = f"epoch {epoch}: accuracy {score['accuracy']:.3f}, {job.world} workers, batch {job.batch_size}"
    job.print(text)  # elastane
