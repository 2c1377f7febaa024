"""A slice of ``python -m benchmarks.inputs``: damaged files of every kind, each handed to its verb.

Run in a process of its own: it forks a child per input, and must not do so with the threads of a test run.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.inputs import judging, samples, trying
from benchmarks.inputs.mutations import MUTATIONS, mutated
from benchmarks.inputs.running import Ran

ROOT = Path(__file__).parent.parent
SLICE = ("--count", "110", "--seed", "7")


@pytest.mark.slow
def test_a_slice_of_damaged_inputs_breaks_no_promise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.inputs", *SLICE, "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    figures = json.loads((tmp_path / "inputs.json").read_text())
    assert [each["value"] for each in figures] == [0] * len(judging.FAULTS)


def test_a_case_is_the_same_whenever_it_is_asked_for() -> None:
    chosen = samples.kinds()
    for number in (0, 50, 77):
        assert trying.case(number, 3, chosen) == trying.case(number, 3, chosen)
    assert trying.case(77, 3, chosen) != trying.case(77, 4, chosen)


@pytest.mark.parametrize("name", sorted(set(MUTATIONS) - {"bomb"}))
def test_every_mutation_can_be_made_of_every_kind(name: str) -> None:
    for kind in samples.kinds():
        for target in kind.targets:
            MUTATIONS[name][1](random.Random(1), kind.files[target].encode())


def test_mutations_damage_nearly_everything() -> None:
    data = samples.kinds()[0].files["t.trace"].encode()
    assert sum(mutated(random.Random(seed), data)[0] != data for seed in range(200)) > 190


@pytest.mark.parametrize(
    ("code", "err", "fault"),
    [
        (1, "Traceback (most recent call last):\n  …\nValueError: x\n", judging.TRACE),
        (1, "error: t.trace\n", judging.CODE),
        (-11, "", judging.CODE),
        (2, "error: something is wrong\n", judging.SENTENCE),
        (2, "error: t.trace, line 1: a\nand more\n", judging.SENTENCE),
        (2, "error: t.trace: \x1b[2J\n", judging.SENTENCE),
        (0, "x.py:3: RuntimeWarning: overflow\n", judging.STRAY),
    ],
)
def test_what_breaks_a_promise_is_seen(code: int, err: str, fault: str) -> None:
    ran = Ran(code, "", err, 0.1, 100.0, late=False)
    assert fault in list(judging.faults(samples.kinds()[0], "t.trace", ran))


def test_a_refusal_in_one_sentence_is_none() -> None:
    ran = Ran(2, "", "error: t.trace, line 3, column time: 'x' is not a number\n", 0.1, 100.0, late=False)
    assert list(judging.faults(samples.kinds()[0], "t.trace", ran)) == []
    assert judging.placed(ran)
