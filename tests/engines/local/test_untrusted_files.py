"""Whatever a job writes into its own files, whoever reads them goes on, at a bounded cost."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.engines.contract import Attempt, Launch, Report, Running, Told, Wanted
from elastane.engines.local.attempt_monitor import AttemptMonitor
from elastane.engines.local.json_files import read_json
from elastane.engines.local.launch_file import ended_from_json, ended_json
from elastane.engines.local.paths import Layout
from elastane.engines.local.untrusted_files import (
    LOOK_BYTES,
    LOOK_EVENTS,
    LOOK_LINES,
    clean,
    has_more,
    read_events,
)
from elastane.service.job_logs import log_files, log_path
from elastane.service.protocol import NotFound
from elastane.train.exit_cause import FINISHED, ExitCause, ExitKind, given_up
from elastane.train.reports.event_lines import line_of
from elastane.train.reports.events import Resized, Warned

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(
    ["type", "at_s", "step", "batch", "steps", "step_s", "workers", "plan", "worker", "kind"]
)
kinds = st.sampled_from(
    ["stepped", "fitted", "resized", "warned", "spawn", "plan", "finish", "finished", "failed"]
)
nearly = st.dictionaries(fields, any_json | kinds, max_size=10)
poison = st.binary(max_size=200) | (any_json | nearly).map(lambda value: json.dumps(value).encode() + b"\n")


def journal(folder: Path) -> Path:
    path = Layout(folder).records("j1") / "events.jsonl"
    path.parent.mkdir(parents=True)
    return path


def monitor(folder: Path, heard: list[Report]) -> AttemptMonitor:
    layout, attempt = Layout(folder), Attempt("j1", 1)
    launch = Launch(attempt, "j1", ("true",), "/", layout.attempt(attempt), layout.run("j1"))
    launch.folder.mkdir(parents=True, exist_ok=True)
    return AttemptMonitor(folder, Wanted(launch, None), heard.append, lambda _: None)  # type: ignore[arg-type,return-value]


@settings(max_examples=150, deadline=None)
@given(data=poison)
def test_every_file_of_a_job_may_hold_anything(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = journal(folder)
        looker = monitor(folder, [])
        attempt = looker.wanted.launch.folder
        for each in (path, path.with_name("plans.jsonl"), attempt / "members.json", attempt / "ended.json"):
            each.write_bytes(data)
        logs = looker.wanted.launch.run / "logs"
        logs.mkdir(parents=True)
        (logs / "w1.log").write_bytes(data)
        look = read_events(path, 0)
        assert 0 <= look.offset <= len(data)
        for _, event in look.events:
            json.dumps(event.to_json(), ensure_ascii=False).encode()
        looker.processes()
        (log,) = log_files(Layout(folder), "j1")
        assert (log.worker, log.bytes) == ("w1", len(data))
        assert log.attempt >= 1
        ended = ended_from_json(read_json(attempt / "ended.json"))
        assert ended is None or ended.detail.encode() is not None


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "device"])
def test_only_a_regular_file_is_read(tmp_path: Path, kind: str) -> None:
    path = journal(tmp_path)
    other = tmp_path / "other"
    other.write_bytes(line_of(Warned(1.0, "of another")))
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(other)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("/dev/zero")
    assert not has_more(path, 0)
    assert read_events(path, 0).events == ()
    assert read_json(path) is None


def test_a_folder_on_the_way_is_no_link_either(tmp_path: Path) -> None:
    path = journal(tmp_path)
    path.write_bytes(line_of(Warned(1.0, "of another")))
    mine = tmp_path / "j2"
    mine.mkdir()
    (mine / "run").symlink_to(path.parent)
    assert read_events(mine / "run" / path.name, 0).events == ()


def test_an_endless_line_is_passed_over_without_being_held(tmp_path: Path) -> None:
    path = journal(tmp_path)
    with path.open("wb") as file:
        file.truncate(200 << 20)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + line_of(Warned(1.0, "after it")))
    offset, found, looks = 0, [], 0
    while (look := read_events(path, offset)).more or look.events:
        offset, looks = look.offset, looks + 1
        found += [event for _, event in look.events]
        assert looks < 20
    assert found == [Warned(1.0, "after it")]


def test_a_line_that_is_still_being_written_is_read_once_it_is_whole(tmp_path: Path) -> None:
    path = journal(tmp_path)
    line = line_of(Warned(1.0, "slow"))
    path.write_bytes(line[:10])
    assert read_events(path, 0).offset == 0
    path.write_bytes(line)
    assert read_events(path, 0).events == ((len(line), Warned(1.0, "slow")),)


def test_one_look_takes_a_bounded_number_of_events(tmp_path: Path) -> None:
    path = journal(tmp_path)
    path.write_bytes(line_of(Warned(1.0, "x")) * (3 * LOOK_EVENTS))
    look = read_events(path, 0)
    assert len(look.events) == LOOK_EVENTS
    assert look.more
    assert look.offset <= LOOK_BYTES


def test_one_look_takes_a_bounded_number_of_lines(tmp_path: Path) -> None:
    path = journal(tmp_path)
    path.write_bytes(b"\n" * LOOK_BYTES)  # a million lines that say nothing
    look = read_events(path, 0)
    assert (look.lines, look.offset, look.more) == (LOOK_LINES, LOOK_LINES, True)


def test_a_job_that_reports_much_is_read_at_a_bounded_pace(tmp_path: Path) -> None:
    path = journal(tmp_path)
    path.write_bytes(line_of(Warned(1.0, "x")) * (3 * LOOK_EVENTS))
    heard: list[Report] = []
    looker = monitor(tmp_path, heard)
    began_s = time.monotonic()
    asyncio.run(looker._read_journal())
    assert len(heard) == LOOK_EVENTS
    assert looker._read_s >= began_s + LOOK_EVENTS / 200.0
    quiet = monitor(tmp_path, heard)
    path.write_bytes(line_of(Warned(1.0, "x")))
    asyncio.run(quiet._read_journal())
    assert quiet._read_s < time.monotonic() + 0.1


def test_of_many_changes_of_size_the_last_is_told(tmp_path: Path) -> None:
    path = journal(tmp_path)
    sizes = [Resized(1.0 + i, i, "grow", i, i + 1, 1, 0.1) for i in range(1, 100)]
    path.write_bytes(b"".join(map(line_of, sizes)))
    heard: list[Report] = []
    looker = monitor(tmp_path, heard)
    asyncio.run(looker._read_journal())
    assert [report.event for report in heard if isinstance(report, Told)] == sizes
    (running,) = [report for report in heard if isinstance(report, Running)]
    assert running.at_s == sizes[-1].at_s


def test_nesting_that_exhausts_the_stack_is_no_event_and_no_end(tmp_path: Path) -> None:
    path = journal(tmp_path)
    path.write_bytes(b"[" * 60_000 + b"\n" + line_of(Warned(1.0, "after it")))
    assert [event for _, event in read_events(path, 0).events] == [Warned(1.0, "after it")]
    path.write_bytes(b"[" * 200_000)
    assert read_json(path) is None


@pytest.mark.parametrize(
    "wrong",
    [{"batch": -3}, {"step_s": -1.0}, {"step_s": "nan"}, {"step": 10**300}, {"at_s": 1e300}, {"at_s": "inf"}],
)
def test_an_event_holds_only_what_can_have_been_measured(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = journal(tmp_path)
    counts = {"step": 1, "epoch": 0, "workers": 1, "batch": 32, "steps": 1}
    right = {"type": "stepped", "at_s": 1.0, "step_s": 0.1, **counts}
    path.write_text(f"{json.dumps(right)}\n{json.dumps({**right, **wrong})}\n")
    assert len(read_events(path, 0).events) == 1


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"cause": "nonsense", "detail": [], "code": "x", "at_s": "y"},
        {"cause": "finished", "detail": "", "code": 0},
        {"exit": {"kind": "nonsense", "code": 1, "signal": None, "detail": ""}, "at_s": 1.0},
        {"exit": [], "at_s": 1.0},
    ],
)
def test_an_end_that_nobody_would_write_is_none(values: dict[str, object]) -> None:
    assert ended_from_json(values) is None


def test_an_end_is_within_bounds_whatever_it_says() -> None:
    values = {"cause": "failed", "detail": "caf\udce9", "code": 2**70, "at_s": 1e300}
    ended = ended_from_json(values)
    assert ended is not None
    assert (ended.exit.kind, ended.exit.detail, ended.exit.code) == (ExitKind.GIVEN_UP, "caf\\udce9", None)
    assert ended.at_s <= time.time()
    json.dumps(ended_json(given_up("caf\udce9"), 1.0), ensure_ascii=False).encode()
    assert len(clean("x" * 10_000_000)) < 10_000


def test_half_a_character_in_a_report_is_replaced(tmp_path: Path) -> None:
    path = journal(tmp_path)
    path.write_bytes(b'{"type":"warned","at_s":1.0,"text":"\\ud800"}\n')
    ((_, event),) = read_events(path, 0).events
    assert event == Warned(1.0, "?")


def test_plans_that_a_job_made_up_do_not_hide_its_logs(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    run, records = layout.run("j1"), layout.records("j1")
    records.mkdir(parents=True)
    (run / "logs").mkdir(parents=True)
    (run / "logs" / "w1.log").write_text("hello")
    os.mkfifo(run / "logs" / "w8.log")
    (records / "plans.jsonl").write_text(
        '[]\n5\n{"type":"spawn"}\n{"type":"plan","plan":5}\n{"type":"plan","plan":{"kind":"start","members":[]}}\n'
        + "[" * 200_000
        + '\n{"type":"spawn","worker":"w1"}\n'
    )
    (found,) = log_files(layout, "j1")
    assert (found.worker, found.leader, found.bytes) == ("w1", True, 5)


@pytest.mark.parametrize("linked", ["run", "logs", "file", "second name"])
def test_logs_are_listed_through_no_link(tmp_path: Path, linked: str) -> None:
    layout, other = Layout(tmp_path / "home"), tmp_path / "other" / "logs"
    other.mkdir(parents=True)
    (other / "w1.log").write_text("of another")
    run = layout.run("j1")
    run.parent.mkdir(parents=True)
    if linked == "run":
        run.symlink_to(other.parent)
    else:
        run.mkdir()
    match linked:
        case "logs":
            (run / "logs").symlink_to(other)
        case "file":
            (run / "logs").mkdir()
            (run / "logs" / "w1.log").symlink_to(other / "w1.log")
        case "second name":
            (run / "logs").mkdir()
            (run / "logs" / "w1.log").hardlink_to(other / "w1.log")
    assert log_files(layout, "j1") == []
    with pytest.raises(NotFound):
        log_path(layout, "j1", 1, "w1")


def test_an_attempt_that_cannot_be_looked_after_can_still_be_ended(tmp_path: Path) -> None:
    heard: list[Report] = []
    looker = monitor(tmp_path, heard)

    def broken() -> None:
        raise RuntimeError("never thought of")

    looker._ended = broken  # type: ignore[method-assign,assignment]
    asyncio.run(asyncio.wait_for(looker.run(), 60))
    assert [type(report).__name__ for report in heard] == ["Over"]
    assert not any(isinstance(report, Told) for report in heard)


ENDS = [
    FINISHED,
    ExitCause.of_process(3),
    ExitCause.of_process(-9),
    ExitCause(ExitKind.OUT_OF_MEMORY, signal=9, detail="no memory"),
    given_up("it hung"),
]


@pytest.mark.parametrize("end", ENDS, ids=str)
def test_an_end_comes_back_as_it_was_written(end: ExitCause) -> None:
    ended = ended_from_json(json.loads(json.dumps(ended_json(end, 1.0))))
    assert ended is not None
    assert (ended.exit, ended.at_s) == (end, 1.0)


@pytest.mark.parametrize(
    ("cause", "code", "end"),
    [
        ("finished", 0, FINISHED),
        ("failed", 3, ExitCause.of_process(3)),
        ("failed", -9, ExitCause.of_process(-9)),
        ("lost", None, ExitCause(ExitKind.NODE_LOST)),
        ("suspended", None, ExitCause(ExitKind.SUSPENDED)),
    ],
)
def test_an_end_that_an_earlier_version_wrote_is_read(cause: str, code: int | None, end: ExitCause) -> None:
    ended = ended_from_json({"cause": cause, "detail": "", "code": code, "at_s": 1.0})
    assert ended is not None
    assert ended.exit == end
