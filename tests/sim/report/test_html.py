"""The HTML page: self-contained, bounded in size, and safe with whatever users call their jobs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.kit import html_page
from elastane.kit.html_page import script_safe
from elastane.sim.report import SweepPoint, write_html, write_sweep_html
from elastane.sim.report.compare import rows
from elastane.sim.report.embed import Limits, page_data
from elastane.sim.result import JobRecord, RunResult, Stretch

EVIL = "</script><b>&\"'{{data}}"


def run(policy: str, jobs: int = 3, changes: int = 4, seed: int = 1, name: str = "job") -> RunResult:
    stretches = tuple(Stretch(i * 10, i * 10 + 10, i % 3, 1, 32 * (i + 1), 0.5) for i in range(changes))
    record = JobRecord(
        id="", app=name, tenant=name, submit_s=0, start_s=0, finish_s=changes * 10, requested_gpus=1,
        service_gpu_s=30, restart_gpu_s=0, restarts=1, isolated_s=20, stretches=stretches,
    )  # fmt: skip
    named = tuple(replace(record, id=f"{name}-{i:04}", submit_s=i) for i in range(jobs))
    return RunResult(
        policy=policy, title=policy, parameters={"name": name}, oracle=False, workload="w", physics={"load": 1},
        seed=seed, total_gpus=8, jobs=named, decision_ms=(1.0,),
        wall_s=1.0, cpu_s=1.0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _small_chart_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five megabytes of plotly in every page would only slow the tests; one test puts it back."""
    monkeypatch.setattr(html_page, "chart_library", lambda: "/* plotly */")


def page(path: Path, *results: RunResult, **options: object) -> str:
    write_html(results, path / "r.html", **options)
    return (path / "r.html").read_text(encoding="utf-8")


def data_of(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_page_embeds_the_chart_library_once_and_asks_the_network_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    text = page(tmp_path, run("fifo"))
    assert text.count("* plotly.js v") == 1
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=[\"']?(?:https?:)?//", text)
    assert "default-src 'none'" in text
    assert text.count("</script") == 3


def test_no_marker_is_left_unfilled(tmp_path: Path) -> None:
    text = page(tmp_path, run("fifo"), sweep=[SweepPoint("load", 1, run("fifo"))])
    assert "{{" not in text


@pytest.mark.parametrize("where", ["job", "policy", "workload", "physics", "notes"])
def test_strings_of_users_cannot_leave_their_place(tmp_path: Path, where: str) -> None:
    result = {
        "job": run("fifo", name=EVIL),
        "policy": run(EVIL),
        "workload": replace(run("fifo"), workload=EVIL),
        "physics": replace(run("fifo"), physics={EVIL: EVIL}),
        "notes": replace(run("fifo"), notes=(EVIL,)),
    }[where]
    text = page(tmp_path, result, sweep=[SweepPoint(EVIL, EVIL, result)])
    assert text.count("</script") == 3
    assert "<b>" not in text


def test_names_survive_the_way_into_the_page(tmp_path: Path) -> None:
    data = data_of(page(tmp_path, run(EVIL, name=EVIL)))
    assert data["policies"][0]["name"] == EVIL
    assert data["jobs"][0] == f"{EVIL}-0000"
    assert data["runs"][0][0]["app"] == EVIL


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_embedded_data_reads_back_and_holds_no_markup(value: object) -> None:
    text = script_safe(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_same_runs_give_the_same_page(tmp_path: Path) -> None:
    assert page(tmp_path, run("a"), run("b")) == page(tmp_path, run("a"), run("b"))


def test_data_by_hand(tmp_path: Path) -> None:
    data = data_of(page(tmp_path, run("a", jobs=1, changes=2)))
    assert data["unit"] == {"name": "s", "size": 1}
    assert data["jct"] == [{"x": [20.0], "y": [1.0]}]
    assert data["timeline"][0]["t"] == [0, 10, 20]
    assert data["timeline"][0]["gpus"] == [0, 1, 0]
    assert data["timeline"][0]["eff"] == [None, 0.5, None]
    assert data["runs"][0][0]["s"] == [0, 10, 0, 32, 0.5, 10, 20, 1, 64, 0.5]


def test_times_count_from_the_first_submission() -> None:
    shifted = run("a", jobs=1)
    late = tuple(replace(s, start_s=s.start_s + 1e9, end_s=s.end_s + 1e9) for s in shifted.jobs[0].stretches)
    job = replace(shifted.jobs[0], submit_s=1e9, start_s=1e9, finish_s=1e9 + 40, stretches=late)
    data, _ = page_data(rows([replace(shifted, jobs=(job,))]), Limits())
    assert data["timeline"][0]["t"][0] == 0
    assert data["runs"][0][0]["finish"] == 40


def test_few_jobs_are_all_shown_and_nothing_is_said(tmp_path: Path) -> None:
    assert page_data(rows([run("a")]), Limits())[1] == []


def test_large_runs_are_thinned_and_the_page_says_so(tmp_path: Path) -> None:
    limits = Limits(points=10, jobs=5, stretches_per_job=4, stretches=1000)
    text = page(tmp_path, run("a", jobs=50, changes=9), limits=limits)
    data = data_of(text)
    assert len(data["jobs"]) == 5
    assert (data["jobs"][0], data["jobs"][-1]) == ("job-0000", "job-0049")
    assert len(data["timeline"][0]["t"]) == 10
    assert len(data["jct"][0]["x"]) == 10
    assert all(len(job["s"]) <= 5 * 4 for job in data["runs"][0])
    assert data["runs"][0][0]["s"][-4] == 90  # the last stretch still reaches the end
    assert "5 of 50 jobs" in text
    assert "averages over 10 equal intervals" in text
    assert "more than 4 allocation changes" in text


def test_stretches_of_all_policies_together_are_bounded() -> None:
    limits = Limits(stretches=400)
    data, said = page_data(rows([run("a", 100, 10), run("b", 100, 10)]), limits)
    total = sum(len(job["s"]) // 5 for each in data["runs"] for job in each)
    assert total <= 400
    assert "20 of 100 jobs" in said[0]


def test_a_job_one_policy_never_saw_is_null_there(tmp_path: Path) -> None:
    data = data_of(page(tmp_path, run("a", jobs=3), run("b", jobs=2)))
    assert data["runs"][1][2] is None


def test_summary_table_marks_oracles_leaders_and_seeds(tmp_path: Path) -> None:
    oracle = replace(run("srtf"), oracle=True)
    text = page(tmp_path, run("slow", changes=9), run("fast"), run("fast", changes=5, seed=2), oracle)
    assert '<span class="badge">oracle</span>' in text
    assert 'class="best"' in text
    assert "<small>± " in text
    assert "Distributions pool all seeds" in text


def test_empty_run_still_makes_a_page(tmp_path: Path) -> None:
    data = data_of(page(tmp_path, replace(run("a"), jobs=())))
    assert data["jobs"] == []


def test_sweep_page(tmp_path: Path) -> None:
    points = [SweepPoint("load", value, run(name)) for name in ("a", "b") for value in (0.5, 1, 2)]
    write_sweep_html(points, tmp_path / "s.html")
    data = data_of((tmp_path / "s.html").read_text(encoding="utf-8"))
    assert [each["parameter"] for each in data["sweeps"]] == ["load"]
    assert data["sweeps"][0]["lines"][0]["x"] == [0.5, 1, 2]
    assert "runs" not in data
