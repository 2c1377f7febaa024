"""The pool as a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.errors import ElastaneError
from elastane.models.history import Experience, Pool, Signature, load_pool, save_pool
from helpers.past_jobs import past_job


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    jobs = [past_job(1), past_job(2, "bert", tenant="a", shared=True, total_work=None), past_job(3, places=())]
    jobs.append(Experience("bare", Signature(app="x", types=("t4", "a100"))))
    file = tmp_path / "new" / "pool.json"
    assert save_pool(jobs, file) == 4
    assert list(load_pool(file)) == jobs
    again = tmp_path / "again.json"
    save_pool(load_pool(file), again)
    assert again.read_bytes() == file.read_bytes()
    assert [path.name for path in file.parent.iterdir()] == ["pool.json"]


def test_an_empty_pool_is_a_pool(tmp_path: Path) -> None:
    assert save_pool(Pool(), tmp_path / "p") == 0
    assert len(load_pool(tmp_path / "p")) == 0


def _with(row: dict[str, object]) -> str:
    return json.dumps({"elastane_history": 1, "experiences": [{"id": "a", "signature": {"app": "x"}, **row}]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not JSON"),
        ("[]", "not an object"),
        ("{}", "not a history"),
        ('{"elastane_history": 2}', "version 2"),
        ('{"elastane_history": 1, "experiences": 3}', "not a list"),
        ('{"elastane_history": 1, "experiences": [{"id": "a"}]}', "experience 1: signature"),
        (_with({"timings": {"t4": [[1, 1, 8, 0.1]]}}), "experience 1: timings.t4.0"),
        (_with({"timings": {"t4": [[1, 0, 8, 0.1, 0.1]]}}), "1 or more"),
        (_with({"timings": {"t4": [[1, 1, 8, -0.1, 0.1]]}}), "above 0"),
        (_with({"noise": [[2.0, 1.0]]}), "noise point"),
        (_with({"total_work": -5}), "total work"),
        (_with({"restart_s": -5}), "restart"),
        (_with({"total_work": "much"}), "total_work"),
    ],
)
def test_a_file_that_is_something_else_is_refused_in_plain_words(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "pool.json"
    file.write_text(text)
    with pytest.raises(ElastaneError, match=said) as caught:
        load_pool(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ElastaneError, match="No such file"):
        load_pool(tmp_path / "nothing.json")
