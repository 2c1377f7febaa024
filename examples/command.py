"""Ridge regression by gradient descent on the diabetes data of scikit-learn: a script that no scheduler can change.

python examples/command.py
elastane train examples/command.py            # the same, watched over: a command
"""

import argparse

import numpy as np
from sklearn.datasets import load_diabetes

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=2000)
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--decay", type=float, default=1e-4)
options = parser.parse_args()

data = load_diabetes()
features = (data.data - data.data.mean(0)) / data.data.std(0)
target = (data.target - data.target.mean()) / data.target.std()
weights = np.zeros(features.shape[1])

for step in range(options.steps + 1):
    residual = features @ weights - target
    loss = float(np.mean(residual**2))
    if not np.isfinite(loss):
        raise SystemExit(f"the loss is not finite at step {step}: --rate {options.rate:g} is too large")
    if step % (max(1, options.steps // 10)) == 0:
        print(f"step {step}: loss {loss:.4f}")
    weights -= options.rate * (features.T @ residual / len(target) + options.decay * weights)
