"""A lone worker is told what torchrun would set only if its script cannot do without."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elastane.train.coordinator.gang_coordinator import Meeting, PlainCoordinator
from elastane.train.coordinator.script_kind import JobKind
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor
from elastane.train.coordinator.torchrun_env import told_alone
from elastane.train.exit_cause import ExitCause

_LIKE_NANOGPT = """
import os
import torch
from torch.distributed import init_process_group

backend = "nccl"
ddp = int(os.environ.get("RANK", -1)) != -1
if ddp:
    init_process_group(backend=backend)
    torch.cuda.set_device(f"cuda:{os.environ['LOCAL_RANK']}")
    master = int(os.environ["RANK"]) == 0
else:
    master = True
if master:
    print("trains by itself", flush=True)
"""
_IN_A_FUNCTION = """
import os
import torch.distributed as dist

def wanted():
    return "WORLD_SIZE" in os.environ

def setup():
    dist.init_process_group("gloo")

def main():
    options.distributed: bool = wanted()
    if options.distributed:
        setup()

if __name__ == "__main__":
    main()
"""
_ALWAYS = """
import os
import torch.distributed as dist

local = int(os.environ.get("LOCAL_RANK", 0))
if not dist.is_initialized():
    dist.init_process_group("gloo")
"""
_ONE_OF_TWO = "import os, torch.distributed as dist\n" + (
    "if 'RANK' in os.environ: dist.init_process_group()\ndist.init_process_group()"
)
_ELSEWHERE = "import torch.distributed as dist\nimport mine\nmine.setup(dist)"
_NONE = "print('hello')"


@pytest.mark.parametrize("kind", [JobKind.RESIZABLE, JobKind.RIGID])
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (_LIKE_NANOGPT, False),
        (_IN_A_FUNCTION, False),
        (_NONE, False),
        (_ALWAYS, True),
        (_ONE_OF_TWO, True),
        (_ELSEWHERE, True),
        ("this is no Python", False),
    ],
)
def test_what_a_script_asks_decides(tmp_path: Path, kind: JobKind, source: str, told: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(source)
    assert told_alone(kind, script) is told


def test_without_a_source_the_kind_decides(tmp_path: Path) -> None:
    for unknown in (None, tmp_path / "missing.py"):
        assert told_alone(JobKind.RESIZABLE, unknown)
        assert not told_alone(JobKind.RIGID, unknown)


def test_a_gang_of_one_is_told_nothing_and_one_of_two_everything() -> None:
    decider = PlainCoordinator(
        Settings(workers=1), True, Meeting("run", lambda _: "127.0.0.1", lambda: 20001, alone=False)
    )
    decider.start(0.0)
    assert decider.environment("w1") == {}
    decider.started("w1", 1.0)
    decider.resize(2, 2.0)
    decider.exited("w1", ExitCause.of_process(-15), 3.0)
    told = decider.environment("w3")
    assert (told["RANK"], told["WORLD_SIZE"], told["MASTER_PORT"]) == ("1", "2", "20001")


@pytest.mark.parametrize("kind", [JobKind.RESIZABLE, JobKind.RIGID])
def test_a_script_that_looks_for_rank_trains_by_itself(tmp_path: Path, kind: JobKind) -> None:
    script = tmp_path / "train.py"
    script.write_text(_LIKE_NANOGPT)
    options = JobOptions(
        script=str(script),
        run=tmp_path / "run",
        settings=Settings(workers=1),
        directory=tmp_path,
        kind=kind,
        told_alone=told_alone(kind, script),
    )
    said: list[str] = []
    ended = asyncio.run(asyncio.wait_for(Supervisor(options, lambda _: None, said.append).run(), 120.0))
    assert ended.outcome == "finished", ended.cause
    assert "trains by itself" in "".join(said)
