"""From what happened to what is told: lines, slots over time, figures, charts and the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import plotly.graph_objects
import pytest

from demo.samples import BLOW, EVENTS, RECORDS, T0, detail, resized, stepped, tale
from elastane.demo.cast import SCRIPTS
from elastane.demo.chaos import Blow, Target
from elastane.demo.figure import figure, goodput_points, slots_at
from elastane.demo.narrator import Narrator, line_of
from elastane.demo.pauses import Pause, pauses_of
from elastane.demo.report import write_report
from elastane.demo.scores import FILE, accuracy_in
from elastane.demo.scripts import score
from elastane.demo.stage import Cleaned
from elastane.demo.summary import Summary, figures_of
from elastane.demo.timeline import changes_of
from elastane.demo.wording import HEADINGS, cells, facts
from elastane.service.messages import NodeInfo
from elastane.train.reports.events import Ended, WorkerLost


def test_the_event_log_gives_who_had_how_many_slots_when() -> None:
    changes = changes_of(RECORDS)
    assert [(round(change.at_s - T0, 3), change.workers) for change in changes] == [
        (0.0, 0), (0.1, 1), (4.0, 4), (8.0, 1), (40.0, 0),
    ]  # fmt: skip
    assert changes[2].nodes == (("n0", 2), ("n1", 2))
    assert [slots_at(changes, T0 + at) for at in (-1.0, 0.05, 0.1, 7.9, 8.0, 99.0)] == [0, 0, 1, 4, 1, 0]


def test_a_job_without_a_log_has_no_slots() -> None:
    assert changes_of(()) == ()
    assert slots_at((), T0) == 0


def test_growing_shrinking_and_recovering_are_told_with_their_pause() -> None:
    lines = [line.text for event in EVENTS if (line := line_of("cnn", event)) is not None]
    assert lines == [
        "cnn trains with 1 worker",
        "cnn grew 1→4 in 20 ms",
        "cnn trains again with 3 workers after 90 ms, 1 step done again",
        "cnn shrank 3→1 in 4 ms",
    ]


def test_a_job_that_starts_again_says_from_where() -> None:
    line = line_of("cnn", resized(1.0, "start", 0, 2, 0.001), again=True)
    assert line is not None
    assert line.text == "cnn trains again, on from step 10, with 2 workers"


def test_the_loss_of_all_workers_is_a_pause_until_training_goes_on() -> None:
    start = resized(1.0, "start", 0, 1, 0.001)
    gone = (WorkerLost(T0 + 5.0, "w1", "lost", 9), WorkerLost(T0 + 5.1, "w2", "lost", 9))
    back = resized(5.75, "start", 0, 1, 0.0)
    assert pauses_of([start, *gone, back]) == [Pause(T0 + 5.75, "recover", 1, 1, 0.75)]
    suspended = Ended(T0 + 3.0, "stopped", "suspended", 9, 2.0)
    assert pauses_of([start, suspended, back]) == []


def test_a_move_is_told_by_where_it_leads_not_by_who_was_there() -> None:
    line = line_of("cnn", resized(1.0, "move", 0, 1, 0.065))
    assert line is not None
    assert line.text == "cnn moved to other slots, 1 worker, in 65 ms"


def test_ends_and_suspensions_are_told_once() -> None:
    narrator = Narrator()
    running = detail(state="running", ended_s=None)
    waiting = detail(state="suspended", ended_s=None)
    assert narrator.about_jobs([running], T0) == []
    assert [line.text for line in narrator.about_jobs([waiting], T0)] == [
        "cnn is saved and waits: others get its slots"
    ]
    assert narrator.about_jobs([waiting], T0) == []
    assert [line.text for line in narrator.about_jobs([detail()], T0 + 50.0)] == ["cnn succeeded after 40 s"]
    failed = detail("mlp", state="failed", reason="exit code 1")
    assert narrator.about_jobs([failed], T0)[0].text == "mlp failed after 40 s: exit code 1"


def test_a_node_that_was_lost_is_told_when_it_is_back() -> None:
    narrator = Narrator()
    up = NodeInfo(id="n0", slots=2, used=0, accelerator="cpu", state="up")
    lost = up.model_copy(update={"state": "lost"})
    assert narrator.about_nodes([up], T0) == []
    assert narrator.about_nodes([lost], T0 + 1.0) == []
    assert [line.text for line in narrator.about_nodes([up], T0 + 3.5)] == [
        "n0 is back after 2.5 s with a new agent"
    ]
    assert narrator.about_nodes([up], T0 + 4.0) == []


def test_figures_count_changes_pauses_and_steps_done_again() -> None:
    figures = figures_of(detail(attempt=2), EVENTS, 0.95, 0.96)
    assert figures.jct_s == 40.0
    assert figures.reallocations == 3 + 1
    assert figures.pauses_s == (0.02, 0.09, 0.004)
    assert figures.steps_lost == 1
    assert figures.to_json()["pause_median_ms"] == 20.0
    assert figures.to_json()["pause_longest_ms"] == 90.0


def test_steps_lost_by_going_back_to_a_checkpoint_count() -> None:
    events = (stepped(1.0, 10), stepped(2.0, 20), stepped(5.0, 16, steps=4))
    assert figures_of(detail(), events, None, None).steps_lost == 8


def test_a_job_that_says_nothing_of_steps_is_not_said_to_have_lost_none() -> None:
    figures = figures_of(detail(kind="command"), (resized(1.0, "start", 0, 1, 0.5),), None, None)
    assert figures.steps_lost is None
    assert figures.pauses_s == ()
    assert len(cells(figures)) == len(HEADINGS)


@pytest.mark.parametrize(
    ("cleaned", "state", "good"),
    [
        (Cleaned(5, 0, 0, True), "succeeded", True),
        (Cleaned(5, 0, 1, True), "succeeded", False),
        (Cleaned(5, 0, 0, False), "succeeded", False),
        (Cleaned(5, 0, 0, True), "failed", False),
    ],
)
def test_a_demo_succeeds_only_if_all_jobs_do_and_nothing_is_left(
    cleaned: Cleaned, state: str, good: bool
) -> None:
    figures = figures_of(detail(state=state), EVENTS, 0.9, 0.9)
    assert Summary((figures,), (BLOW,), 40.0, cleaned).succeeded is good


def test_a_demo_without_jobs_has_not_succeeded() -> None:
    assert not Summary((), (), 0.0).succeeded


def test_the_score_last_written_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert accuracy_in(tmp_path) is None
    for epoch, accuracy in ((0, 0.5), (9, 0.9312)):
        score.write(epoch, accuracy)
    assert accuracy_in(tmp_path) == 0.9312


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"accuracy": "high"}', "\xff"])
def test_what_is_no_score_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert accuracy_in(tmp_path) is None


def test_scripts_and_reader_mean_the_same_file() -> None:
    assert score.FILE == FILE
    assert f'"{FILE}"' in (SCRIPTS / "torchrun.py").read_text()


def test_blows_are_told_by_name() -> None:
    assert BLOW.sentence() == "killed worker w4 of cnn with -9"
    agent = Blow(T0, Target.AGENT, "n1", ("cnn", "mlp"), 7)
    assert agent.sentence() == "killed the agent of n1 with -9; workers of cnn and mlp died with it"


def test_the_figure_is_one_that_plotly_accepts() -> None:
    drawn = figure(tale(), 4)
    chart = plotly.graph_objects.Figure(data=drawn["data"], layout=drawn["layout"])
    assert [trace.yaxis for trace in chart.data] == ["y", "y2", "y3"]
    slots = drawn["data"][0]
    assert slots["x"] == pytest.approx([0.0, 0.1, 4.0, 8.0, 40.0])
    assert slots["y"] == [0, 1, 4, 1, 0]
    assert drawn["layout"]["shapes"][0]["x0"] == 6.0


def test_the_curve_of_goodput_has_a_gap_where_nobody_trained() -> None:
    points = goodput_points([stepped(1.0, 10), stepped(2.0, 20), stepped(30.0, 30)])
    assert [(at_s - T0, rate) for at_s, rate in points] == [(1.0, 50.0), (2.0, 50.0), (2.0, None), (30.0, 50.0)]
    assert goodput_points([]) == []


def test_the_page_holds_charts_figures_and_story_and_needs_no_network(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "report.html"
    write_report(tale("<b>&cnn").cleaned(Cleaned(5, 0, 0, True)), path)
    text = path.read_text()
    assert "&lt;b&gt;&amp;cnn" in text
    assert "<b>&cnn" not in text
    assert "killed worker w4" in text
    assert "nothing is left" in text
    assert "{{" not in text.partition("<script>")[0]
    assert not re.search(r"<(script|link)[^>]+(src|href)=\"http", text)
    data = re.search(r'id="data">(.*?)</script>', text)
    assert data is not None
    assert json.loads(data[1])["data"]


def test_facts_say_what_was_killed_and_cleared_away() -> None:
    said = facts(tale().cleaned(Cleaned(6, 1, 0, True)).summary)
    assert said["killed"] == "worker w4"
    assert said["cleaned up"] == "6 processes ended, 1 killed; nothing is left"
    assert said["jobs"] == "1 of 1 succeeded"
