"""Snapshots in a node's memory: always one whole, the newest is found, an older generation changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from elastane.train.coordinator.script_runner import Order, start_cold
from elastane.train.coordinator.snapshot_memory import SNAPSHOTS, inherited, offer
from elastane.train.reports.events import WorkerLost
from elastane.train.worker import node_snapshots
from elastane.train.worker.async_save import AsyncSaver
from elastane.train.worker.checkpoint import FolderCheckpointStore, Loaded
from elastane.train.worker.node_snapshots import NodeSnapshots, newest, offered
from elastane.train.worker.state_codec import Packed, pack, unpack
from train.on_device import pretend_gpus
from train.running import train


@pytest.fixture
def slots() -> Iterator[tuple[int, int]]:
    files: dict[str, str] = {}
    offer(files)
    found = inherited(files)
    assert found is not None
    yield found
    for slot in found:
        os.close(slot)


@pytest.fixture
def snapshots(slots: tuple[int, int]) -> NodeSnapshots:
    return NodeSnapshots(*slots)


def state(value: int) -> Packed:
    return pack(
        {
            "w": torch.full((70, 3), float(value)),
            "half": torch.ones(2, dtype=torch.bfloat16),
            "turned": torch.arange(6.0).view(2, 3).t(),
            "empty": torch.empty(0, 4),
            "scalar": torch.tensor(value),
            "step": value,
        }
    )


def step_of(loaded: Loaded | None) -> int:
    assert loaded is not None
    values = unpack(loaded.packed)
    assert torch.equal(values["w"], torch.full((70, 3), float(loaded.step)))
    assert torch.equal(values["turned"], torch.arange(6.0).view(2, 3).t())
    assert (values["half"].dtype, values["empty"].shape) == (torch.bfloat16, (0, 4))
    assert int(values["scalar"]) == values["step"] == loaded.step
    return loaded.step


def test_the_newest_snapshot_comes_back(snapshots: NodeSnapshots) -> None:
    assert snapshots.load() is None
    for step in range(1, 5):
        assert snapshots.save(step, state(step), {"epoch": step}, generation=3)
        loaded = snapshots.load()
        assert step_of(loaded) == step
        assert loaded is not None
        assert (loaded.generation, loaded.info) == (3, {"epoch": step})


def test_who_began_again_at_an_older_step_outranks_what_was_given_up(snapshots: NodeSnapshots) -> None:
    snapshots.save(50, state(50), {}, generation=1)
    snapshots.save(40, state(40), {}, generation=2)
    assert step_of(snapshots.load()) == 40
    assert not snapshots.save(60, state(60), {}, generation=1)
    assert step_of(snapshots.load()) == 40


@pytest.mark.parametrize("at", [0, 9, 40, -1, -500])
def test_a_torn_snapshot_is_passed_over(slots: tuple[int, int], snapshots: NodeSnapshots, at: int) -> None:
    for step in (1, 2):
        snapshots.save(step, state(step), {}, generation=1)
    newer = slots[1] if b'"step": 2' in os.pread(slots[1], 1 << 20, 0) else slots[0]
    place = at if at >= 0 else os.fstat(newer).st_size + at
    os.pwrite(newer, bytes([os.pread(newer, 1, place)[0] ^ 0x55]), place)
    assert step_of(snapshots.load()) == 1


def test_a_writer_that_dies_half_way_leaves_the_one_before(
    snapshots: NodeSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (1, 2):
        snapshots.save(step, state(step), {}, generation=1)

    def dies(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(node_snapshots, "_write", dies)
    with pytest.raises(KeyboardInterrupt):
        snapshots.save(3, state(3), {}, generation=1)
    assert step_of(snapshots.load()) == 2


def test_a_node_without_room_has_none(
    snapshots: NodeSnapshots, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node_snapshots, "_free_bytes", lambda: 100)
    saver = AsyncSaver(FolderCheckpointStore(tmp_path), memory=snapshots)
    assert saver.submit(1, state(1), {}, to_disk=False)
    saver.flush()
    assert saver.memory is None
    assert saver.submit(2, state(2), {})
    saver.flush()
    assert step_of(saver.store.load()) == 2


def test_a_copy_goes_to_memory_and_when_it_is_due_to_disk_as_well(
    snapshots: NodeSnapshots, tmp_path: Path
) -> None:
    saver = AsyncSaver(FolderCheckpointStore(tmp_path), memory=snapshots)
    saver.submit(1, state(1), {}, 5)
    saver.flush()
    saver.submit(2, state(2), {}, 5, to_disk=False)
    saver.flush()
    on_disk, in_memory = saver.store.load(), snapshots.load()
    assert (step_of(on_disk), step_of(in_memory)) == (1, 2)
    assert newest(on_disk, None, in_memory) is in_memory
    assert on_disk is not None
    assert on_disk.generation == 5
    assert newest(None) is None


@pytest.mark.parametrize("written", ["", "3", "x,y", "0,1", "91,92"])
def test_what_no_fork_server_has_offered_is_not_written_to(written: str) -> None:
    assert offered({SNAPSHOTS: written} if written else {}) is None


SCRIPT = """
import os, signal
import torch
from torch import nn
import elastane.train as et
from elastane.train.worker.node_snapshots import offered

job = et.init(checkpoint_every=3600.0)
model = job.model(nn.Linear(4, 2).to(job.device))
opt = job.optimizer(torch.optim.AdamW(model.parameters()))
data = job.loader(torch.utils.data.TensorDataset(torch.ones(64, 4)), batch_size=8)
first = not (job.run / "killed").exists()
begun = None
for epoch in job.epochs(100_000):
    for (x,) in data:
        begun = job.step if begun is None else begun
        if first and job.step % 20 == 19 and offered() and offered().load():
            (job.run / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()
    if not first:
        break
(job.run / "begun").write_text(str(begun))
"""


def test_a_job_whose_workers_all_died_goes_on_where_its_node_remembers_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = train(script, tmp_path / "run", environment=pretend_gpus(tmp_path))
    assert done.ended.outcome == "finished", done.log()
    assert [type(event) for event in done.lost] == [WorkerLost]
    assert int((tmp_path / "run" / "begun").read_text()) > 0


def test_workers_that_start_cold_inherit_them_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[str, str] = {}
    offer(files)
    monkeypatch.setenv(SNAPSHOTS, files[SNAPSHOTS])
    script = tmp_path / "script.py"
    script.write_text(
        "from pathlib import Path\n"
        "from elastane.train.worker.node_snapshots import offered\n"
        "Path('found').write_text(str(offered() is not None))\n"
    )
    order = Order("w1", str(script), (), {}, str(tmp_path / "log"), str(tmp_path))
    with Path(os.devnull).open("w") as note:
        pid = start_cold(order, note.fileno())
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "found").read_text() == "True"
    for slot in files[SNAPSHOTS].split(","):
        os.close(int(slot))
