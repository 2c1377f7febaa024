"""A training that asks for its own resizes and kills one of its workers; run by test_workers.py.

Every step moves the weight by exactly -1, so that a step lost, or made twice, shows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch

import elastane.compat.horovod as hvd
from elastane.train.coordinator.control_file import control_of
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.messages import TO_CLIENT, Resize

WANTED = [3, 2, 2, 3]
"""Workers of each phase; worker 1 dies at the end of the second and is replaced."""

hvd.init()
net = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(net.weight)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0))
sizes: list[int] = []
state = hvd.elastic.TorchState(net, optimizer, batch=0, phase=0, since=0)
state.register_reset_callbacks([lambda: sizes.append(hvd.size())])


def ask_for(workers: int) -> None:
    control = control_of(Path(os.environ["ELASTANE_RUN"]))
    connection = connect(control["host"], control["port"], "client", control["token"])
    connection.send(Resize(workers))
    next(connection.messages(TO_CLIENT))
    connection.close()


def next_phase() -> None:
    state.phase, state.since = state.phase + 1, 0
    if state.phase == 2:
        state.commit()
        if hvd.rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    elif state.phase < 4 and hvd.rank() == 0:
        ask_for(WANTED[state.phase])


@hvd.elastic.run
def train(state: hvd.elastic.TorchState) -> None:
    while state.phase < 4:
        optimizer.zero_grad()
        net(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        state.batch += 1
        assert net.weight.item() == -state.batch
        state.since += hvd.size() == WANTED[state.phase]
        if state.since == 4:
            next_phase()
        if state.batch % 3 == 0:
            state.commit()


train(state)
if hvd.rank() == 0:
    found = {"sizes": sizes, "batch": state.batch, "weight": net.weight.item()}
    Path(sys.argv[1]).write_text(json.dumps(found))
