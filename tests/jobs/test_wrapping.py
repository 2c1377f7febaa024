"""Commands are understood as what they wrap; what is not understood stays as it is, and nothing ever raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.jobs.wrapping import Unwrapped, unwrap


def script(line: str) -> Unwrapped:
    found = unwrap(line.split())
    assert not found.problem
    return found


@pytest.mark.parametrize(
    ("line", "launcher", "name", "arguments"),
    [
        ("python train.py --lr 0.1", "python", "train.py", "--lr 0.1"),
        ("/v/bin/python3.12 -u train.py", "/v/bin/python3.12", "train.py", ""),
        ("env A=1 B= python train.py -x", "python", "train.py", "-x"),
        ("/usr/bin/env python train.py", "python", "train.py", ""),
        ("torchrun train.py --nnodes 3", "torchrun", "train.py", "--nnodes 3"),
        ("uv run train.py a", "uv", "train.py", "a"),
        ("uv run python train.py", "uv", "train.py", ""),
        ("poetry run torchrun --standalone train.py", "poetry", "train.py", ""),
        ("python -m torch.distributed.run --master-port 1 train.py", "python", "train.py", ""),
        ("accelerate launch --multi_gpu train.py --cpu", "accelerate", "train.py", "--cpu"),
    ],
)
def test_the_script_and_who_runs_it_are_found(line: str, launcher: str, name: str, arguments: str) -> None:
    found = script(line)
    assert (found.launcher, found.script, found.module) == (launcher, name, False)
    assert list(found.arguments) == arguments.split()


def test_modules_are_told_from_scripts() -> None:
    for line in (
        "python -m pkg.train -v",
        "torchrun -m pkg.train -v",
        "accelerate launch --module pkg.train -v",
    ):
        found = script(line)
        assert (found.script, found.module, found.arguments) == ("pkg.train", True, ("-v",))


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ("--nproc-per-node=4", (4, 4)),
        ("--nproc_per_node 4 --nnodes 2", (8, 8)),
        ("--nnodes=1:3 --nproc-per-node=2", (2, 6)),
        ("--nproc-per-node=auto", None),
        ("--standalone", None),
    ],
)
def test_torchruns_processes_are_workers(options: str, workers: tuple[int, int] | None) -> None:
    assert script(f"torchrun {options} train.py").workers == workers


def test_what_torchrun_would_do_itself_is_passed_over_with_a_word() -> None:
    found = script("torchrun --rdzv_backend=c10d --rdzv-endpoint h:1 --nproc-per-node 2 train.py")
    assert found.notes == (
        "torchrun: --rdzv-backend, --rdzv-endpoint not used: Elastane brings workers together and starts them again",
    )
    assert found.told


def test_what_accelerate_would_tell_a_script_is_told() -> None:
    found = script("accelerate launch --cpu --mixed_precision bf16 --num_processes 2 train.py")
    assert found.workers == (2, 2)
    assert found.environment == {"ACCELERATE_USE_CPU": "true", "ACCELERATE_MIXED_PRECISION": "bf16"}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("torchrun --frobnicate train.py", "torchrun's --frobnicate is not understood, so it runs as it is"),
        ("torchrun --nproc-per-node=x train.py", "torchrun's --nproc-per-node x is not understood"),
        ("torchrun --nproc-per-node=2", "torchrun is given no script"),
        ("torchrun --nnodes=2 train.py", "--nnodes 2 without a number"),
        ("accelerate launch --use_deepspeed train.py", "accelerate launch's --use_deepspeed is not understood"),
        ("accelerate launch --num_machines=2 train.py", "--num_machines 2"),
        ("env -i python train.py", "env's -i is not understood"),
        ("uv run --with torch python train.py", "uv run's --with is not understood"),
        ("python -c pass", "it is not a Python script"),
        ("python -O train.py", "it is not a Python script"),
        ("bash train.sh", "it is not a Python script"),
    ],
)
def test_what_is_not_understood_is_said(line: str, problem: str) -> None:
    found = unwrap(line.split())
    assert found.script == ""
    assert problem in found.problem
    assert found.workers is None


WORDS = st.sampled_from(
    [
        *(
            "python",
            "/x/python3",
            "env",
            "torchrun",
            "uv",
            "run",
            "poetry",
            "accelerate",
            "launch",
            "-m",
            "-u",
            "--",
        ),
        *(
            "torch.distributed.run",
            "accelerate.commands.launch",
            "--nproc-per-node",
            "--nproc-per-node=2",
            "--cpu",
        ),
        *(
            "--nnodes=1:4",
            "--nnodes",
            "--standalone",
            "--num_processes",
            "A=1",
            "=",
            "-",
            "",
            "train.py",
            "3",
            "²",
        ),
    ]
)


@given(st.lists(WORDS | st.text(max_size=5), max_size=12))
def test_no_command_makes_it_fail(command: list[str]) -> None:
    found = unwrap(command)
    assert bool(found.script) is not bool(found.problem)
    if found.workers is not None:
        assert 1 <= found.workers[0] <= found.workers[1] <= 1_000_000


def test_nor_does_one_that_is_wrapped_ten_thousand_times() -> None:
    assert unwrap(["env"] * 10_000).script == ""
