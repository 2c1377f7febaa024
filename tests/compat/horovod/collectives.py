"""What each of two workers checks; run by test_workers.py under torchrun."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

import elastane.compat.horovod as hvd
from elastane.train.errors import TrainError

hvd.init()
me, all_of_us = hvd.rank(), hvd.size()
assert (all_of_us, hvd.local_rank(), hvd.local_size()) == (2, me, 2)

assert hvd.allreduce(torch.tensor([1.0, 2.0]) * (me + 1)).tolist() == [1.5, 3.0]
assert hvd.allreduce(torch.tensor([1, 2]) * (me + 1), op=hvd.Sum).tolist() == [3, 6]
assert hvd.allreduce(torch.tensor([1 + me]), average=True).tolist() == [1]
columns = torch.full((3, 2), float(me)).t()
assert hvd.allreduce_(columns).tolist() == [[0.5] * 3] * 2
assert not columns.is_contiguous()

uneven = hvd.allgather(torch.full((me + 1, 2), me, dtype=torch.int16))
assert uneven.tolist() == [[0, 0], [1, 1], [1, 1]]
assert hvd.allgather(torch.zeros((0, 2))).shape == (0, 2)
assert hvd.broadcast(torch.tensor([me == 1]), 1).tolist() == [True]
assert hvd.broadcast_object({"who": me, "parts": (torch.tensor([me]), None)}, 1)["parts"][0].tolist() == [1]
assert hvd.allgather_object(["me", me]) == [["me", 0], ["me", 1]]

torch.manual_seed(me)
model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
spare = nn.Linear(2, 2)
optimizer = torch.optim.Adam([*model.parameters(), *spare.parameters()], lr=0.1 * (me + 1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_parameters(spare.named_parameters())
hvd.broadcast_optimizer_state(optimizer, root_rank=1)
assert optimizer.param_groups[0]["lr"] == 0.2
assert spare.weight.grad_fn is None
assert spare.weight.requires_grad

with pytest.raises(TrainError, match=r"w is of shape \(3,\)") if me else nullcontext():
    hvd.broadcast_parameters({"w": torch.zeros(2 + me)})

# The mean of the gradients of two halves is the gradient of the whole; a gradient that one worker lacks counts as 0.
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
x = torch.arange(8.0).view(4, 2)
whole = torch.autograd.grad(model[0](x).mean(), model[0].weight)[0]
optimizer.zero_grad()
model[0](x[me * 2 : me * 2 + 2]).mean().backward()
if me == 0:
    spare(x).sum().backward()
optimizer.synchronize()
assert torch.allclose(model[0].weight.grad, whole)
assert torch.allclose(spare.weight.grad, x.sum(0).expand(2, 2) / 2)
assert model[2].weight.grad is None
with optimizer.skip_synchronize():
    optimizer.step()
sizes = [float(p.detach().double().sum()) for p in (*model.parameters(), *spare.parameters())]
assert hvd.allgather_object(sizes) == [sizes, sizes]

halves = hvd.DistributedOptimizer(
    torch.optim.SGD([nn.Parameter(torch.zeros(2))], 1.0), compression=hvd.Compression.fp16
)
halves.param_groups[0]["params"][0].grad = torch.full((2,), 1.0 + me)
halves.step()
assert halves.param_groups[0]["params"][0].tolist() == [-1.5, -1.5]

# Rank 1 has committed more often: everybody takes over its state, though it is not rank 0.
sampler = hvd.elastic.ElasticSampler(range(10), shuffle=False)
state = hvd.elastic.TorchState(model, sampler=sampler, best=me)
state._commits = me
sampler.record_indices([me])
state.sync()
assert (state.best, sampler.processed_indices) == (1, {1})
sampler.record_indices([2 + me])
state.sync()
assert sampler.processed_indices == {1, 2, 3}
assert list(sampler) == [[0, 5, 7], [4, 6, 8]][me]

hvd.barrier()
hvd.shutdown()
assert not hvd.is_initialized()
