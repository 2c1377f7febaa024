"""Every file of a job, in its own folder and in that of its records, may be anything: those who read them go on."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.engines.contract import Attempt, Launch, Over, Report, Wanted
from elastane.engines.local.attempt_monitor import AttemptMonitor
from elastane.engines.local.log_rotation import rotate
from elastane.engines.local.paths import Layout
from elastane.engines.local.untrusted_files import read_events
from elastane.engines.local.upgrade_home import take_up
from elastane.service.api.log_reader import open_below
from elastane.service.job_logs import log_files, log_path
from elastane.service.protocol import NotFound
from elastane.train.coordinator.last_words import last_words
from elastane.train.coordinator.plan_entries import WorkerSpawned
from elastane.train.coordinator.plan_log import PlanLog

JOB, ATTEMPT = "j1", Attempt("j1", 1)
RECORDS = ("plans.jsonl", "events.jsonl", "control.json", "nursery.log")
OF_ATTEMPT = ("launch.json", "ended.json", "members.json", "lock", "begun", "job.log")
OF_RUN = ("logs/w1.log", "logs/w2.log.1", "logs/odd.log", "checkpoints/latest/manifest.json", "summary.json")
SECRET = "only for the service"

words = st.sampled_from(
    ["type", "plan", "workers", "pid", "kind", "cause", "detail", "code", "at_s", "host", "port"]
)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words | st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
contents = (
    st.binary(max_size=200)
    | any_json.map(lambda value: json.dumps(value).encode() + b"\n")
    | st.sampled_from([b"[" * 100_000, b"\n" * 5000, b"9" * 5000, b"\0" * 300_000])
)


def _write(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


stands = contents.map(_write) | st.sampled_from(
    [
        lambda path: path.mkdir(),
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path.parents[-2] / "nowhere"),
        lambda path: None,
    ]
)
anything = st.fixed_dictionaries(dict.fromkeys((*RECORDS, *OF_ATTEMPT, *OF_RUN), stands))


def places(layout: Layout) -> dict[str, Path]:
    found = {name: layout.records(JOB) / name for name in RECORDS}
    found |= {name: layout.attempt(ATTEMPT) / name for name in OF_ATTEMPT}
    return found | {name: layout.run(JOB) / name for name in OF_RUN}


def laid_out(home: Path, chosen: dict[str, Callable[[Path], object]]) -> Layout:
    layout = Layout(home)
    for name, path in places(layout).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        chosen[name](path)
    return layout


def read_by_the_service(layout: Layout) -> None:
    """All that the control plane and the supervisor do with these files, but for the life of an attempt."""
    look = read_events(layout.records(JOB) / "events.jsonl", 0)
    for _, event in look.events:
        json.dumps(event.to_json(), ensure_ascii=False).encode()
    for each in log_files(layout, JOB):
        try:
            os.close(open_below(log_path(layout, JOB, each.attempt, each.worker), JOB))
        except NotFound:
            continue
    rotate(layout.run(JOB) / "logs", longest_bytes=100)
    for name in ("w1.log", "odd.log"):
        assert len(last_words(layout.run(JOB) / "logs" / name)) <= 300
    take_up(layout)


@settings(max_examples=40, deadline=None)
@given(chosen=anything)
def test_whatever_stands_in_place_of_its_files_a_job_can_be_ended(
    chosen: dict[str, Callable[[Path], object]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        layout = laid_out(Path(name), chosen)
        read_by_the_service(layout)
        heard: list[Report] = []
        launch = Launch(ATTEMPT, JOB, ("true",), "/", layout.attempt(ATTEMPT), layout.run(JOB))
        looker = AttemptMonitor(layout.home, Wanted(launch, None), heard.append, lambda _: None)  # type: ignore[arg-type,return-value]
        looker.processes()
        asyncio.run(asyncio.wait_for(looker.run(), 60))
        (over,) = [report for report in heard if isinstance(report, Over)]
        over.detail.encode()


@settings(max_examples=60, deadline=None)
@given(data=contents)
def test_a_plan_log_may_hold_anything(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "plans.jsonl"
        path.write_bytes(data)
        log = PlanLog(path)
        log.append(WorkerSpawned("w1"))
        entries = list(log.entries())
        log.close()
        assert entries[-1] == WorkerSpawned("w1")


@pytest.mark.parametrize("linked", ["file", "folder", "pipe"])
def test_last_words_are_read_through_no_link(tmp_path: Path, linked: str) -> None:
    secret = tmp_path / "home" / "w1.log"
    secret.parent.mkdir()
    secret.write_text(SECRET)
    logs = tmp_path / "run" / "logs"
    logs.parent.mkdir()
    if linked == "folder":
        logs.symlink_to(secret.parent)
    else:
        logs.mkdir()
        os.mkfifo(logs / "w1.log") if linked == "pipe" else (logs / "w1.log").symlink_to(secret)
    assert last_words(logs / "w1.log") == ""
    (tmp_path / "run").joinpath("logs").unlink() if linked == "folder" else None
    (tmp_path / "run" / "mine").mkdir()
    (tmp_path / "run" / "mine" / "w1.log").write_text("ValueError: x\n")
    assert last_words(tmp_path / "run" / "mine" / "w1.log") == "ValueError: x"
