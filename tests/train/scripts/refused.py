"""Does one thing that cannot train elastically, chosen by name."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import TensorDataset

import elastane.train as et

what = sys.argv[1]
torch.manual_seed(0)
job = et.init()
net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
if what == "sync_batch_norm":
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net)
model = job.model(net)
if what == "ddp":
    model = DistributedDataParallel(model)
kind = torch.optim.LBFGS if what == "lbfgs" else torch.optim.SGD
opt = job.optimizer(kind(model.parameters(), lr=0.1))
data = job.loader(TensorDataset(torch.randn(64, 8), torch.arange(64) % 4), batch_size=16)
for epoch in job.epochs(3):
    if epoch == 1:
        if what == "replaced":
            model[2] = nn.Linear(8, 4)
        if what == "late_buffer":
            model.register_buffer("late", torch.zeros(3))
        if what == "all_reduce":
            dist.all_reduce(torch.ones(1))
    for x, y in data:
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        opt.step()
