"""The same training with 1, 2, 3, 4 and 8 workers, in forked processes; prints one hash per configuration.

Usage: matrix.py VARIANT, one of: consistent, fixed (one merged unit per worker), summed (virtual ranks added up
locally and all-reduced), unseeded (virtual ranks without random numbers of their own).
"""

import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from elastane.train.data import source_of
from elastane.train.data.torch_settings import LoaderSettings
from elastane.train.reduce.mean import MeanReducer
from elastane.train.script.loader import ElasticLoader
from elastane.train.script.optimizer_hooks import gate_optimizer
from elastane.train.worker import script_body
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.group import Group
from elastane.train.worker.loop import Loop, LoopParts
from elastane.train.worker.membership import Membership
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.step_cut import LoopSettings
from elastane.train.worker.telemetry import Reporter

VARIANT = sys.argv[1]
WORLDS = (1, 2, 3, 4, 8) if VARIANT == "consistent" else (1, 2, 4)
STEPS, VIRTUAL, BATCH = 6, 8, 32
CONFIGURATIONS = [(model, opt) for model in ("mlp", "cnn", "transformer") for opt in ("sgd", "adamw")]


class Files:
    """Group addresses through files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def put(self, rank: int, data: bytes) -> None:
        part = self.folder / f".{rank}"
        part.write_bytes(data)
        part.rename(self.folder / str(rank))

    def get(self, rank: int, timeout_s: float) -> bytes:
        while not (self.folder / str(rank)).exists():
            time.sleep(0.001)
        return (self.folder / str(rank)).read_bytes()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(x.view(-1, 4, 16)).mean(1))


def network(kind: str) -> nn.Module:
    torch.default_generator.manual_seed(0)
    if kind == "cnn":
        head = [nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
        return nn.Sequential(*head, nn.Dropout(0.2), nn.Flatten(), nn.Linear(8 * 36, 4))
    if kind == "transformer":
        return Attention()
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 4))


class Training:
    """What a job is for its loader and optimizer, without a script's side."""

    replaying = half_done = stepped = False

    def __init__(self, settings: LoopSettings, membership: Membership, state: TrainingState) -> None:
        self.settings, self.state = settings, state
        self.recipe, self.position = Recipe(state), Position()
        self._membership = membership
        self._loop: Loop | None = None

    def enter(self) -> Loop:
        reporter = Reporter(lambda _: None, lambda: 0.0)
        agreement = Agreement(self.settings.mode, self._membership, reporter)
        parts = (self.settings, self.recipe, self._membership, self.state, reporter, self.position, agreement)
        self._loop = self._loop or Loop(LoopParts(*parts))
        return self._loop

    loop = property(enter)


def train(kind: str, opt: str, group: Group | None, world: int) -> str:
    model = network(kind)
    optimizer: torch.optim.Optimizer
    if opt == "sgd":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    membership = Membership()
    membership.group, membership.world = group, world
    membership.rank = group.rank if group else 0
    state = TrainingState()
    state.model, state.optimizer = model, optimizer
    mode = Mode.FIXED if VARIANT == "fixed" else Mode.CONSISTENT
    training = Training(LoopSettings(mode, 0, VIRTUAL), membership, state)
    training.recipe.clip(gate_optimizer(optimizer, training), 1.0)
    engine = training.enter()
    if VARIANT == "summed":
        setup = engine.setups.current
        object.__setattr__(setup, "reducer", MeanReducer(setup.layout))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(STEPS * BATCH - 5, 64, generator=generator)
    y = (x @ torch.randn(64, 4, generator=generator)).argmax(1)
    loader = ElasticLoader(
        "data",
        source_of(TensorDataset(x, y), shuffle=True),
        LoaderSettings(TensorDataset(x, y), BATCH),
        training,
        False,
    )
    for inputs, labels in loader:
        F.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    digest = hashlib.sha256()
    for _, tensor in sorted(model.state_dict().items()):
        digest.update(tensor.numpy().tobytes())
    for values in optimizer.state.values():
        for _, value in sorted(values.items()):
            digest.update(torch.as_tensor(value).numpy().tobytes())
    return digest.hexdigest()[:16]


def worker(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    if VARIANT == "unseeded":
        script_body.seed_all = lambda *_: None
    found: dict[str, dict[int, str]] = {}
    for world in WORLDS:
        if rank < world:
            group = Group(rank, world, Files(folder / str(world))) if world > 1 else None
            for kind, opt in CONFIGURATIONS:
                found.setdefault(f"{kind}/{opt}", {})[world] = train(kind, opt, group, world)
    (folder / f"found{rank}").write_text(json.dumps(found))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        children = []
        for rank in range(max(WORLDS)):
            pid = os.fork()
            if not pid:
                worker(rank, folder)
                os._exit(0)
            children.append(pid)
        if any(os.waitpid(pid, 0)[1] for pid in children):
            raise SystemExit("a worker failed")
        print(json.dumps([json.loads((folder / f"found{r}").read_text()) for r in range(max(WORLDS))]))


main()
