"""``elastane bench policies`` from the outside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from elastane.cli.main import app
from elastane.errors import ElastaneError

SMALL = ("--quick", "--days", "0.06", "--cluster", "2x2:t4", "--seeds", "0-1", "--workers", "1")


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, ("bench", "policies", *words))


def test_a_quick_run_says_where_the_reference_is_not_best(tmp_path: Path) -> None:
    words = (*SMALL, "--policies", "fifo,tiresias,srtf", "--reference", "tiresias", "--workloads", "itp")
    told = json.loads(bench(*words, "--json", "-o", "r.html").stdout)
    assert told["protocol"]["policies"] == ["tiresias", "fifo", "srtf"]
    (cell,) = told["cells"]
    assert set(cell["ranking"]) == {"tiresias", "fifo"}
    assert cell["policies"]["srtf"]["oracle"] is True
    for entry in cell["policies"].values():
        assert len(entry["per_seed"]) == 2
        assert entry["mean_jct_s"] > 0.0
    assert cell["policies"]["tiresias"]["against_reference"]["mean_jct_s"]["verdict"] == "the same"
    assert "tiresias" in (tmp_path / "r.html").read_text()
    assert len(list((tmp_path / "cache" / "elastane" / "sim").glob("*.json.gz"))) == 6
    assert "Where tiresias stands" in bench(*words).stdout  # from the cache


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--size", "hug"), "--size is quick, normal, full"),
        (("--policies", "pollx"), "pollx"),
        (("--policies", "fifo,fifo"), "--policies needs one or more different"),
        (("--reference", "fifo,srtf"), "--reference is one policy"),
        (("--seeds", "2-0"), "--seeds takes ranges"),
        (("--seeds", "a"), "--seeds takes whole numbers"),
        (("--workloads", "phil"), "--workloads: no workload 'phil'"),
        (("--restart", "-1"), "--restart must be"),
        (("--interval", "0"), "--interval must be"),
        (("--days", "0"), "days=0"),
        (("--cluster", "lots"), "a cluster is written"),
        (("-o", "report.pdf"), "--out needs a name that ends in .html or .json"),
    ],
)
def test_mistakes_name_their_option(wrong: tuple[str, str], said: str) -> None:
    done = bench("--workers", "1", *wrong)
    assert isinstance(done.exception, ElastaneError), done.output
    assert said in str(done.exception)


def test_a_mistake_is_one_line_and_exit_code_2() -> None:
    command = [sys.executable, "-m", "elastane", "bench", "policies", "--loads", "huge"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --loads takes light, medium, heavy or numbers above 0")
    assert len(done.stderr.splitlines()) == 1
