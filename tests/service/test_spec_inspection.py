"""What a command says about workers becomes part of the job, and what cannot be had is said with its reason."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from elastane.engines.contract import Examined
from elastane.jobs import parse_spec
from elastane.jobs.loading import dump_json
from elastane.jobs.parts import Interpreter
from elastane.jobs.problems import SpecError
from elastane.service.spec_inspection import as_looked_at

COMMAND = {"command": "torchrun --nproc-per-node=2 train.py"}
RESIZABLE = Examined("resizable", "line 1 uses torch.distributed", workers=(2, 4), notes=("a word",))


def test_workers_of_the_command_hold_where_the_job_says_nothing() -> None:
    spec, warnings = as_looked_at(parse_spec(COMMAND), RESIZABLE)
    assert (spec.workers.min, spec.workers.max) == (2, 4)
    assert warnings == ("a word",)


def test_those_of_the_job_win_and_that_is_said() -> None:
    spec, warnings = as_looked_at(parse_spec({**COMMAND, "workers": {"min": 1, "max": 8}}), RESIZABLE)
    assert (spec.workers.min, spec.workers.max) == (1, 8)
    assert warnings[1] == "the command asks for 2 to 4 workers, the job for 1 to 8: that is what holds"


def test_a_range_that_cannot_be_had_is_never_dropped_without_a_word() -> None:
    wanted = parse_spec({"command": "bash train.sh", "workers": {"min": 1, "max": 2}})
    _, [warning] = as_looked_at(wanted, Examined("command", "it is not a Python script"))
    assert warning == "1 to 2 workers are not possible, it keeps 1: it is not a Python script"


def test_what_would_mend_a_rigid_job_is_said() -> None:
    looked = Examined("command", "/v/python cannot import it; its remedy", mendable=True)
    _, [warning] = as_looked_at(parse_spec({"command": "python train.py"}), looked)
    assert warning == "/v/python cannot import it; its remedy"
    _, none = as_looked_at(
        parse_spec({"command": "python install.py"}), Examined("command", "install.py is small")
    )
    assert none == ()


def test_the_interpreter_that_was_chosen_is_kept() -> None:
    wanted = parse_spec({"command": "python train.py", "python": "/usr/bin/python3"})
    assert wanted.python == Interpreter(path="/usr/bin/python3")
    spec, _ = as_looked_at(wanted, Examined("adaptive", ""))
    assert spec.python is None


def test_a_rigid_job_has_one_size_whatever_its_command_says() -> None:
    spec, warnings = as_looked_at(parse_spec({**COMMAND, "kind": "rigid"}), RESIZABLE)
    assert (spec.workers.min, spec.workers.max) == (2, 2)
    assert "the command asks for 2 to 4 workers, a rigid job has one size: 2" in warnings
    assert parse_spec(json.loads(dump_json(spec))) == spec


def test_workers_of_the_command_that_cannot_be_are_refused_as_the_owners_would_be() -> None:
    with pytest.raises(SpecError, match="workers"):
        as_looked_at(parse_spec(COMMAND), replace(RESIZABLE, workers=(4, 2)))


@pytest.mark.parametrize("kind", ["resizable", "rigid", "command"])
def test_a_batch_that_nobody_reads_is_never_dropped_without_a_word(kind: str) -> None:
    said = parse_spec({"command": "python train.py", "epochs": 3, "batch": {"size": 64}})
    _, [warning] = as_looked_at(said, Examined(kind, "a reason"))
    assert warning == f"epochs and batch: only scripts that use elastane.train go by that; this one is {kind}"


def test_a_script_that_is_adaptive_by_another_librarys_interface_reads_no_declarations() -> None:
    said = parse_spec({"command": "python train.py", "batch": {"size": 64}})
    _, [warning] = as_looked_at(said, Examined("adaptive", "line 1 uses elastane.compat", heeds=False))
    assert warning.startswith("batch: ")
    assert warning.endswith("this one is adaptive by elastane.compat")


@pytest.mark.parametrize(("kind", "warnings"), [("adaptive", 0), ("resizable", 1), ("command", 1)])
def test_a_wish_that_only_the_training_library_fulfils_is_never_dropped_without_a_word(
    kind: str, warnings: int
) -> None:
    spec = parse_spec({"command": "python train.py", "epochs": 3, "target": {"metric": "loss", "value": 1.0}})
    _, said = as_looked_at(spec, Examined(kind, "a reason"))
    assert list(said) == warnings * [
        f"epochs and target: only scripts that use elastane.train go by that; this one is {kind}"
    ]
