"""Implements the layer-wise neural network of Justus et al. (Big Data 2018), as in their released code.

Raw sizes in, standardised; one network per kind; mean squared error of log(1 + milliseconds).  Kept as published, so
that others can be compared with it: no logarithms of sizes, no FLOPs, no bytes.  Imports PyTorch when used.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elastane.models.speed import FloatArray
from elastane.predict.costs.contract import LEAST_S, Basis, Times, Timing, roofline_s
from elastane.predict.devices import Device
from elastane.predict.job import require_torch
from elastane.predict.operators import Kind, Operator, Phase

WIDTHS = (32, 64, 128, 128)
BATCH = 128
HALVE_EVERY = 40
EPOCHS = 300


@dataclass(frozen=True, eq=False)
class _Net:
    net: Any
    centre: FloatArray
    scale: FloatArray


@dataclass(frozen=True, eq=False)
class LayerwiseNetwork:
    """One network per kind; kinds that were not measured take the time of the roofline."""

    nets: dict[Kind, _Net]
    name: str = "layer-wise network"
    basis: Basis = Basis.CALIBRATED
    log_sd: float = 0.5

    @classmethod
    def fit(cls, timings: Sequence[Timing], epochs: int = EPOCHS) -> LayerwiseNetwork:
        """Trains as published: Adam with ε 0.1, rate 0.1 halved every 40 epochs, batches of 128."""
        groups = defaultdict(list)
        for each in timings:
            groups[each.operator.kind].append(each)
        return cls({kind: _train(rows, epochs) for kind, rows in groups.items() if len(rows) >= 8})

    def times(self, operators: Sequence[Operator], device: Device, precision: str = "fp32") -> Times:
        """Predicts kind by kind, by each kind's own network."""
        torch = require_torch()
        seconds = roofline_s(operators, device, precision)
        for kind, fitted in self.nets.items():
            index = [i for i, each in enumerate(operators) if each.kind is kind]
            if not index:
                continue
            rows = np.array([_row(operators[i], device) for i in index], np.float64)
            with torch.no_grad():
                inputs = torch.tensor((rows - fitted.centre) / fitted.scale, dtype=torch.float32)
                logs = fitted.net(inputs).squeeze(1).double().numpy()
            seconds[index] = np.expm1(np.minimum(logs, 30.0)) / 1e3
        seconds = np.maximum(seconds, LEAST_S)
        return Times(seconds, np.full_like(seconds, self.log_sd), np.zeros_like(seconds))


def _row(operator: Operator, device: Device) -> list[float]:
    flags = [float(operator.phase is phase) for phase in Phase]
    sizes = operator.dims
    if operator.kind in (Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD):
        sizes = (*sizes[:4], *sizes[5:])  # in the paper the network has to infer the size of the output
    return [
        *(float(each) for each in sizes),
        *flags,
        device.bandwidth_gb_per_s,
        device.sms,
        device.clock_mhz,
    ]


def _train(timings: Sequence[Timing], epochs: int) -> _Net:
    torch = require_torch()
    rows = np.array([_row(each.operator, each.device) for each in timings], np.float64)
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale > 1e-9, scale, 1.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inputs = torch.tensor((rows - centre) / scale, dtype=torch.float32)
        targets = torch.log1p(torch.tensor([each.seconds * 1e3 for each in timings], dtype=torch.float32))
        net = _network(torch, rows.shape[1])
        optimizer = torch.optim.Adam(_groups(net), lr=0.1, eps=0.1, fused=True)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, HALVE_EVERY, 0.5)
        for _ in range(epochs):
            for part in torch.randperm(len(inputs)).split(BATCH):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(net(inputs[part]).squeeze(1), targets[part]).backward()
                optimizer.step()
            schedule.step()
    net.eval()
    return _Net(net, centre, scale)


def _network(torch: Any, inputs: int) -> Any:
    layers: list[Any] = []
    for width in WIDTHS:
        layers += [torch.nn.Linear(inputs, width), torch.nn.ReLU()]
        inputs = width
    return torch.nn.Sequential(
        *layers, torch.nn.Dropout(0.2), torch.nn.Linear(inputs, 1, bias=False), torch.nn.ReLU()
    )


def _groups(net: Any) -> list[dict[str, Any]]:
    """Returns parameter groups with an L2 penalty of 1e-5 on weights only, as weight decay, which is faster."""
    weights = [each for each in net.parameters() if each.ndim == 2]
    biases = [each for each in net.parameters() if each.ndim == 1]
    return [{"params": weights, "weight_decay": 2 * 1e-5}, {"params": biases}]
