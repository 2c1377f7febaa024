"""Batch scripts for Slurm, read as job specs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.errors import ElastaneError
from elastane.jobs import parse_spec
from elastane.jobs.sbatch import Script, is_script, read_script


def read(*headers: str, body: str = "python train.py") -> Script:
    lines = ["#!/bin/bash", *(f"#SBATCH {header}" for header in headers), body]
    return read_script("\n".join(lines) + "\n", "/home/ada/job.sh")


def values(*headers: str) -> dict[str, Any]:
    found = dict(read(*headers).values)
    assert found.pop("command") == ["/bin/bash", "/home/ada/job.sh"]
    parse_spec(read(*headers).values)
    return found


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("--job-name=net", {"name": "net"}),
        ("--job-name net", {"name": "net"}),
        ("-J net", {"name": "net"}),
        ("-Jnet", {"name": "net"}),
        ('--job-name="net"  # a comment', {"name": "net"}),
        ("--chdir=/data", {"workdir": "/data"}),
        ("--nodes=2", {"workers": {"min": 2, "max": 2}}),
        ("-N 2-4", {"workers": {"min": 2, "max": 4}}),
        ("--ntasks=8", {"workers": {"min": 8, "max": 8}}),
        ("-N 2 --ntasks-per-node=4", {"workers": {"min": 8, "max": 8}}),
        ("-N2-3 --ntasks-per-node=4", {"workers": {"min": 8, "max": 12}}),
        ("--gres=gpu:4", {"resources": {"gpus": 4}}),
        ("--gres=gpu", {"resources": {"gpus": 1}}),
        ("--gres=gpu:a100:4", {"accelerators": ["a100"], "resources": {"gpus": 4}}),
        ("--gres=gpu:4:a100", {"accelerators": ["a100"], "resources": {"gpus": 4}}),
        ("--gpus=2", {"resources": {"gpus": 2}}),
        ("-G a100:2", {"accelerators": ["a100"], "resources": {"gpus": 2}}),
        ("--ntasks=4 --gpus=8", {"workers": {"min": 4, "max": 4}, "resources": {"gpus": 2}}),
        ("--gpus-per-task=2 --ntasks=3", {"workers": {"min": 3, "max": 3}, "resources": {"gpus": 2}}),
        (
            "--nodes=2 --ntasks-per-node=4 --gres=gpu:4",
            {"workers": {"min": 8, "max": 8}, "resources": {"gpus": 1}},
        ),
        ("--nodes=2 --ntasks=8 --gres=gpu:8", {"workers": {"min": 8, "max": 8}, "resources": {"gpus": 2}}),
        ("--cpus-per-task=4", {"resources": {"cpus": 4.0}}),
        ("-c4", {"resources": {"cpus": 4.0}}),
        ("--mem=1000000K", {"resources": {"memory": 1.024}}),
        ("--mem=500000", {"resources": {"memory": 524.288}}),
        ("--mem=0", {}),
        (
            "--ntasks-per-node=2 --mem=1000000K",
            {"workers": {"min": 2, "max": 2}, "resources": {"memory": 0.512}},
        ),
        ("-c 2 --mem-per-cpu=1000000K", {"resources": {"cpus": 2.0, "memory": 2.048}}),
    ],
)
def test_common_options_are_understood(header: str, expected: dict[str, Any]) -> None:
    assert values(header) == expected


def test_the_last_of_two_headers_counts() -> None:
    assert values("-J one", "-J two") == {"name": "two"}


@pytest.mark.parametrize(
    ("first", "command"),
    [
        ("#!/bin/bash -l", ["/bin/bash", "-l"]),
        ("#!/usr/bin/env bash", ["/usr/bin/env", "bash"]),
        ("#!", ["/bin/sh"]),
        ("#SBATCH -N1", ["/bin/sh"]),
    ],
)
def test_the_script_is_run_by_its_interpreter(first: str, command: list[str]) -> None:
    assert read_script(f"{first}\ntrue\n", "/j").values["command"] == [*command, "/j"]


def test_headers_end_at_the_first_command() -> None:
    assert read_script("#!/bin/sh\n\n# words\n#SBATCH -J a\ntrue\n#SBATCH -J b\n", "/j").values["name"] == "a"


@pytest.mark.parametrize(
    ("headers", "warnings"),
    [
        ((), ()),
        (("--time=1:00:00",), ("--time is not used: run time is learned while the job trains",)),
        (
            ("-o %j.out -e %j.err",),
            ("--output and --error are not used: Elastane keeps the logs; read them with 'elastane logs'",),
        ),
        (
            ("-p gpu", "--mail-type=END", "--exclusive", "--qos high", "-Z 1"),
            ("not understood and left out: --partition, --mail-type, --exclusive, --qos, --Z",),
        ),
        (("--gres=shard:2",), ("not understood and left out: --gres=shard:2",)),
    ],
)
def test_what_has_no_meaning_here_is_said(headers: tuple[str, ...], warnings: tuple[str, ...]) -> None:
    assert read(*headers).warnings == warnings


def test_srun_is_pointed_out() -> None:
    assert "srun" in read(body="  srun python train.py").warnings[0]


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        ("--array=1-10", "/home/ada/job.sh:2: --array is not supported; submit the jobs one by one"),
        ("-a 1-10", "--array is not supported"),
        ("--nodes=two", "/home/ada/job.sh:2: --nodes: got 'two'; expected a number of nodes such as 2 or 2-4"),
        ("--nodes=0", "--nodes: got '0'"),
        ("--nodes", "--nodes: got ''"),
        ("--ntasks=-1", "--ntasks: got '-1'"),
        ("--gres=gpu:x:y", "--gres: got 'gpu:x:y'"),
        ("--ntasks=2 --gres=gpu:1", "--gres: 2 tasks cannot divide 1 GPUs evenly"),
        ("--mem=lots", "--mem: got 'lots'; expected a size such as 4000M or 16G"),
        ("--job-name='net", "closed quotes"),
        ("nodes=2", "got 'nodes=2'; expected an option such as --nodes=2"),
    ],
)
def test_what_would_change_the_job_is_refused_with_its_line(header: str, complaint: str) -> None:
    with pytest.raises(ElastaneError) as error:
        read(header)
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("text", "script"),
    [("#!/bin/sh\n", True), ("\n#SBATCH -N1\n", True), ("# a spec\ncommand: x\n", False), ("", False)],
)
def test_a_script_is_told_from_a_spec(text: str, script: bool) -> None:
    assert is_script(text) is script


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=30), max_size=4))
def test_whatever_a_header_says_it_is_read_or_refused(headers: list[str]) -> None:
    try:
        found = read(*headers)
    except ElastaneError:
        return
    assert found.values["command"][-1] == "/home/ada/job.sh"
