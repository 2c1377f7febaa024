"""The digits that ship with scikit-learn, with Hugging Face's Accelerate and workers that come and go.

pip install accelerate
elastane train --workers 1 --resize 3:10s,1:30s --chaos kill:20s --preload accelerate examples/accelerate_digits.py
python examples/accelerate_digits.py --epochs 3                         # alone

Only the lines marked "# elastane" differ from a script written for Accelerate.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import elastane.train as et  # elastane
from elastane.train.accelerate import Accelerator  # elastane

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=32, help="of one micro-step, all workers together")
parser.add_argument("--micro-steps", type=int, default=2, help="per optimizer step")
parser.add_argument("--mode", help="fixed or consistent")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16.0
labels = torch.tensor(digits.target)
train, test = TensorDataset(images[:1500], labels[:1500]), TensorDataset(images[1500:], labels[1500:])

job = et.init(options.mode, seed=options.seed)  # elastane
accelerator = Accelerator(job=job, gradient_accumulation_steps=options.micro_steps)  # elastane
torch.manual_seed(options.seed)
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.995)
model, optimizer, train_data, test_data, schedule = accelerator.prepare(
    model, optimizer, DataLoader(train, options.batch, shuffle=True), DataLoader(test, 100), schedule
)

for epoch in job.epochs(options.epochs):  # elastane
    model.train()
    for x, y in train_data:
        with accelerator.accumulate(model):
            accelerator.backward(F.cross_entropy(model(x), y))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    right = 0
    for x, y in test_data:
        with torch.no_grad():
            guesses = model(x).argmax(1)
        guesses, y = accelerator.gather_for_metrics((guesses, y))
        right += int((guesses == y).sum())
    accelerator.log({"accuracy": right / len(test)})
    accelerator.print(f"epoch {epoch}: accuracy {right / len(test):.3f}")
accelerator.end_training()
