"""A small demo as its pieces would report it: one adaptive job that grows, loses a worker and ends."""

from __future__ import annotations

from typing import Any

from elastane.demo.chaos import Blow, Target
from elastane.demo.narrator import Line
from elastane.demo.summary import summarise
from elastane.demo.tale import Tale
from elastane.demo.timeline import changes_of
from elastane.service.messages import EventRecord, JobDetail, WorkerInfo
from elastane.train.reports.events import Event, Resized, Stepped, WorkerLost

T0 = 1000.0


def detail(name: str = "cnn", **more: Any) -> JobDetail:
    facts = {
        "id": f"j-{name}",
        "name": name,
        "tenant": "default",
        "owner": "admin",
        "state": "succeeded",
        "kind": "adaptive",
        "submitted_s": T0,
        "ended_s": T0 + 40.0,
        "attempt": 1,
        "spec": {},
        "directory": "/work",
    }
    return JobDetail.model_validate({**facts, **more})


def member(name: str, node: str, pid: int, doing: str = "member") -> WorkerInfo:
    return WorkerInfo(name=name, node=node, pid=pid, doing=doing)


def resized(at_s: float, kind: str, before: int, after: int, pause_s: float, redone: int = 0) -> Resized:
    return Resized(T0 + at_s, 1, kind, before, after, 10, pause_s, {}, False, redone)  # type: ignore[arg-type]


def stepped(at_s: float, step: int, steps: int = 10, workers: int = 1) -> Stepped:
    return Stepped(
        T0 + at_s,
        step=step,
        epoch=0,
        workers=workers,
        batch=64,
        steps=steps,
        step_s=0.01,
        samples_per_s=100.0,
        efficiency=0.5,
    )


EVENTS: tuple[Event, ...] = (
    resized(2.0, "start", 0, 1, 0.001),
    stepped(3.0, 10),
    resized(4.0, "grow", 1, 4, 0.02),
    stepped(5.0, 20, workers=4),
    WorkerLost(T0 + 6.0, "w4", "killed by signal 9", 20),
    resized(6.1, "recover", 4, 3, 0.09, redone=1),
    stepped(7.0, 30, workers=3),
    resized(8.0, "shrink", 3, 1, 0.004),
)


def state(seq: int, at_s: float, workers: dict[str, int], target: str = "running") -> EventRecord:
    body = {"from": "running", "to": target, "cause": "resize", "workers": workers}
    return EventRecord(seq=seq, at_s=T0 + at_s, kind="state", job="j-cnn", body=body)


RECORDS = (
    state(1, 0.0, {}, "queued"),
    state(2, 0.1, {"n0": 1}, "starting"),
    state(3, 2.0, {"n0": 1}),
    EventRecord(seq=4, at_s=T0 + 3.0, kind="decision", body={"grants": {}}),
    state(5, 4.0, {"n1": 2, "n0": 2}, "resizing"),
    state(6, 8.0, {"n0": 1}),
    state(7, 40.0, {}, "succeeded"),
)

BLOW = Blow(T0 + 6.0, Target.WORKER, "w4", ("cnn",), 4242)


def tale(name: str = "cnn") -> Tale:
    details, events = {name: detail(name)}, {name: EVENTS}
    return Tale(
        began_s=T0,
        ended_s=T0 + 40.0,
        summary=summarise(details, events, {name: 0.95}, {name: 0.96}, [BLOW], 40.0),
        lines=(Line(T0 + 6.0, BLOW.sentence()),),
        changes={name: changes_of(RECORDS)},
        events=events,
    )
