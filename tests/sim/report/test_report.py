"""The comparison: averaging over seeds, who leads a column, the terminal table and the JSON document."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from elastane import __version__
from elastane.errors import ElastaneError
from elastane.sim.report import SweepPoint, comparison, sweep_points, to_json, without_timings, write_json
from elastane.sim.report.columns import COLUMNS, Unit, best, unit, written
from elastane.sim.report.compare import FIGURES, Figure, figure, rows
from elastane.sim.report.sweep import sweep_lines
from elastane.sim.result import JobRecord, RunResult, Stretch

MEAN_JCT = COLUMNS[0]
DECISION = COLUMNS[-1]


def job(name: str, jct: float, finished: bool = True) -> JobRecord:
    return JobRecord(
        id=name, app="resnet", tenant="t", submit_s=0, start_s=0, finish_s=jct if finished else None,
        requested_gpus=1, service_gpu_s=jct, restart_gpu_s=0, restarts=0, isolated_s=50,
        stretches=(Stretch(0, jct, 1, 1, 32, 1.0),),
    )  # fmt: skip


def run(policy: str, jct: float = 100, seed: int = 1, finished: bool = True, **changes: object) -> RunResult:
    base = RunResult(
        policy=policy, title=policy.title(), parameters={"p": -1.0}, oracle=False, workload="pollux",
        physics={"interval_s": 60}, seed=seed, total_gpus=4, jobs=(job("a", jct, finished), job("b", jct)),
        decision_ms=(1.0, 2.0), wall_s=1.0, cpu_s=1.0,
    )  # fmt: skip
    return replace(base, **changes)


def printed(*results: RunResult, width: int = 200) -> str:
    out = StringIO()
    Console(file=out, width=width).print(comparison(results))
    return out.getvalue()


def test_mean_and_interval_over_seeds() -> None:
    # Three seeds: Student's t with two degrees of freedom is 4.3027 at 97.5 %.
    result = figure([10.0, 20.0, 30.0])
    assert result is not None
    assert result.mean == 20
    assert result.half_width == pytest.approx(4.302653 * 10 / 3**0.5, rel=1e-6)


def test_one_seed_has_no_interval_and_a_missing_figure_no_mean() -> None:
    assert figure([5.0]) == Figure(5.0, None)
    assert figure([5.0, None]) is None


def test_policies_keep_the_order_of_the_user_and_seeds_are_sorted() -> None:
    compared = rows([run("z", seed=2), run("a"), run("z", seed=1)])
    assert [row.policy for row in compared] == ["z", "a"]
    assert [r.seed for r in compared[0].runs] == [1, 2]


@pytest.mark.parametrize(
    ("second", "complaint"),
    [
        (run("x"), "two results for seed 1"),
        (run("x", seed=2, parameters={"p": 1.0}), "different parameters"),
        (run("x", seed=2, physics={"interval_s": 30}), "different physics: interval_s"),
    ],
)
def test_runs_that_must_not_be_averaged_are_refused(second: RunResult, complaint: str) -> None:
    with pytest.raises(ElastaneError, match=complaint):
        rows([run("x"), second])


def test_no_results_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ElastaneError, match="no results"):
        to_json([])


def test_best_is_the_lowest_jct() -> None:
    assert best(MEAN_JCT, rows([run("slow", 200), run("fast", 100)])) == {"fast"}


def test_an_oracle_does_not_take_the_lead_from_honest_policies() -> None:
    compared = rows([run("slow", 300), run("fast", 200), run("oracle", 100, oracle=True)])
    assert best(MEAN_JCT, compared) == {"fast"}
    assert best(MEAN_JCT, rows([run("x", 2, oracle=True), run("y", 1, oracle=True)])) == {"y"}


def test_dropping_jobs_does_not_win_a_column() -> None:
    compared = rows([run("drops", 100, finished=False), run("finishes", 200)])
    assert best(MEAN_JCT, compared) == {"finishes"}


def test_nobody_leads_alone_in_a_tie_or_where_more_is_not_better() -> None:
    assert best(MEAN_JCT, rows([run("x"), run("y")])) == frozenset()
    assert best(DECISION, rows([run("x"), run("y", decision_ms=(9.0,))])) == frozenset()
    assert best(MEAN_JCT, rows([run("x")])) == frozenset()


@pytest.mark.parametrize(("jct", "symbol"), [(100, "s"), (600, "min"), (9000, "h")])
def test_a_column_has_one_unit_chosen_by_its_largest_value(jct: float, symbol: str) -> None:
    assert unit(MEAN_JCT, rows([run("x", 1), run("y", jct)])).symbol == symbol


def test_numbers_as_written() -> None:
    assert written(Figure(7200, 360), Unit("h", 3600, 2)) == ("2.00", "± 0.10")
    assert written(Figure(1234567), Unit("s", 1, 0)) == ("1,234,567", "")
    assert written(None, Unit("s", 1, 0)) == ("–", "")


def test_table_names_policies_oracles_parameters_and_the_definition_of_fairness() -> None:
    text = printed(run("fifo", 100), run("srtf", 90, oracle=True, parameters={}))
    assert "pollux: 2 jobs on 4 GPUs" in text
    assert "srtf oracle" in text
    assert "p=-1" in text
    assert "no parameters" in text
    assert "JCT ÷ the job's time alone" in text
    assert "±" not in text


def test_table_with_seeds_shows_the_interval() -> None:
    text = printed(run("fifo", 100), run("fifo", 110, seed=2))
    assert "105.0" in text
    assert "± 63.5" in text  # t(1) = 12.706, standard error 5


def test_table_marks_unfinished_jobs() -> None:
    text = printed(run("fifo", finished=False), run("las"))
    assert "100.0*" in text
    assert "* fifo: 1 of 2 jobs did not finish" in text


@pytest.mark.parametrize("width", [60, 80, 100, 140, 180])
def test_narrow_tables_leave_columns_out_instead_of_cutting_numbers(width: int) -> None:
    text = printed(run("fifo", 12345.6), run("fifo", 9876.5, seed=2), width=width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    assert ("A wider window also shows" in text) == (width < 160)


def test_table_tells_medians_weighted_means_and_what_restarts_cost() -> None:
    moved = replace(job("a", 7200), restart_gpu_s=1800.0)
    text = printed(run("fifo", jobs=(moved, job("b", 3600))))
    assert "median" in text
    assert "GPU-weighted" in text
    assert "to restarts" in text
    assert "0.50" in text
    narrow = printed(run("fifo", jobs=(moved, job("b", 3600))), width=60)
    assert "lost to restarts" in narrow.partition("A wider window also shows")[2].replace("\n", " ")


def test_markup_in_names_is_text() -> None:
    assert "[red]x[/red]" in printed(run("[red]x[/red]"))


def test_document_has_one_result_per_policy_with_everything_promised() -> None:
    document = to_json([run("fifo"), run("elastane(p=-1)", 50)])
    assert document["elastane"] == __version__
    assert (document["workload"], document["physics"], document["seeds"]) == ("pollux", {"interval_s": 60}, [1])
    policies = document["policies"]
    assert isinstance(policies, dict)
    assert list(policies) == ["fifo", "elastane(p=-1)"]
    entry = policies["elastane(p=-1)"]
    assert set(FIGURES) <= set(entry)
    assert (entry["mean_jct_s"], entry["jobs"], entry["oracle"]) == (50, 2, False)
    assert entry["parameters"] == {"p": -1.0}
    assert "per_seed" not in entry
    assert entry["per_job"][0] == {
        "id": "a", "app": "resnet", "tenant": "t", "seed": 1, "submit_s": 0, "start_s": 0, "finish_s": 50,
        "jct_s": 50, "rho": 1.0, "restarts": 0, "service_gpu_s": 50,
    }  # fmt: skip


def test_document_with_seeds() -> None:
    entry = to_json([run("fifo", 110, seed=7), run("fifo", 100, seed=3)])["policies"]["fifo"]
    assert entry["mean_jct_s"] == 105
    assert isinstance(entry["jobs"], int)
    assert [each["seed"] for each in entry["per_seed"]] == [3, 7]
    assert [each["mean_jct_s"] for each in entry["per_seed"]] == [100, 110]
    assert entry["ci95"]["mean_jct_s"] == pytest.approx(12.7062 * 5, rel=1e-4)
    assert [line["seed"] for line in entry["per_job"]] == [3, 3, 7, 7]


def test_per_job_rows_can_be_left_out() -> None:
    assert "per_job" not in to_json([run("fifo")], per_job=False)["policies"]["fifo"]


def test_physics_that_differ_between_policies_are_shown_with_each() -> None:
    document = to_json([run("a"), run("b", physics={"interval_s": 30})])
    assert document["physics"] == {}
    assert document["policies"]["b"]["physics"] == {"interval_s": 30}


def test_without_timings_is_the_same_however_long_it_took() -> None:
    quick = [run("fifo"), run("fifo", seed=2)]
    slow = [replace(each, wall_s=99.0, cpu_s=98.0, decision_ms=(50.0,)) for each in quick]
    assert json.dumps(to_json(quick)) != json.dumps(to_json(slow))
    left = json.dumps(without_timings(to_json(quick)))
    assert left == json.dumps(without_timings(to_json(slow)))
    assert "wall_s" not in left
    assert "decision_ms" not in left
    assert "mean_jct_s" in left


def test_odd_parameter_values_become_valid_json() -> None:
    odd = {"inf": float("inf"), "set": frozenset({"b", "a"}), "nested": {"x": (1, None)}, "other": Path("x")}
    text = json.dumps(to_json([run("fifo", parameters=odd)]), allow_nan=False)
    assert json.loads(text)["policies"]["fifo"]["parameters"] == {
        "inf": "inf", "set": ["a", "b"], "nested": {"x": [1, None]}, "other": "x",
    }  # fmt: skip


def test_written_file_is_the_document(tmp_path: Path) -> None:
    results = [run("fifo", workload="größer")]
    write_json(results, tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8")) == to_json(results)


@given(
    st.lists(st.tuples(st.text(max_size=8), st.floats(0.1, 1e6), st.booleans()), min_size=1, max_size=5),
    st.randoms(),
)
def test_document_round_trips_and_does_not_depend_on_the_order_of_jobs(jobs, rng) -> None:
    records = [replace(job(f"{i}{name}", jct, done), app=name) for i, (name, jct, done) in enumerate(jobs)]
    shuffled = list(records)
    rng.shuffle(shuffled)
    text = json.dumps(to_json([run("x", jobs=tuple(records))]), allow_nan=False)
    assert json.loads(text) == to_json([run("x", jobs=tuple(records))])
    assert text == json.dumps(to_json([run("x", jobs=tuple(shuffled))]))


def test_sweep_finds_the_parameter_that_varies() -> None:
    results = [run("x", physics={"interval_s": v, "load": 1}) for v in (60, 30)]
    assert [(p.parameter, p.value) for p in sweep_points(results)] == [("interval_s", 60), ("interval_s", 30)]


def test_sweep_wants_a_name_when_it_cannot_tell() -> None:
    with pytest.raises(ElastaneError, match="nothing varies"):
        sweep_points([run("x"), run("y")])
    with pytest.raises(ElastaneError, match="no value of 'load'"):
        sweep_points([run("x")], "load")


def test_sweep_lines_average_seeds_and_sort_values() -> None:
    points = [
        SweepPoint("load", 2.0, run("x", 400)),
        SweepPoint("load", 1.0, run("x", 100)),
        SweepPoint("load", 1.0, run("x", 300, seed=2)),
        SweepPoint("load", 1.0, run("y", 50, finished=False)),
    ]
    x, y = sweep_lines(points)["load"]
    assert (x.policy, x.values) == ("x", (1.0, 2.0))
    assert [each and each.mean for each in x.mean_jct_s] == [200, 400]
    assert (x.complete, y.complete) == ((True, True), (False,))
