"""What the cluster demo does to hosts: whom it chooses, what it says, and what survivors' pauses are."""

from __future__ import annotations

from demo.samples import T0, detail, resized
from elastane.demo.cluster_summary import HEADINGS, ClusterSummary, cells, facts
from elastane.demo.faults import Act, Deed, host_to_hit, jobs_on, survivor_pauses
from elastane.demo.stage import Cleaned
from elastane.demo.summary import Summary, figures_of
from elastane.service.messages import JobDetail, WorkerInfo
from elastane.train.reports.events import WorkerLost


def on(name: str, *nodes: str, doing: str = "member") -> JobDetail:
    people = [WorkerInfo(name=f"w{i}", node=node, pid=i, doing=doing) for i, node in enumerate(nodes, 1)]
    return detail(name, state="running", ended_s=None, workers=len(nodes), processes=people)


def deeds(*noticed_s: float | None) -> tuple[Deed, ...]:
    return tuple(Deed(T0, act, "host1", {}, seconds) for act, seconds in zip(Act, noticed_s, strict=True))


def test_jobs_on_a_host_are_told_with_their_workers_elsewhere() -> None:
    jobs = [on("cnn", "host1", "host2", "n0"), on("mlp", "host1"), on("rows", "n0")]
    assert jobs_on("host1", jobs) == {"cnn": 2, "mlp": 0}
    assert jobs_on("host1", [on("cnn", "host1", doing="warming")]) == {}


def test_the_host_that_is_hit_has_a_job_that_can_go_on() -> None:
    jobs = [on("cnn", "host1", "host2"), on("mlp", "host1")]
    assert host_to_hit(["host1", "host2"], jobs, spread=True) == "host1"
    assert host_to_hit(["host2"], jobs, spread=True) == "host2"
    assert host_to_hit(["host1"], [on("mlp", "host1")], spread=True) is None
    assert host_to_hit(["host1"], [on("mlp", "host1")], spread=False) == "host1"
    assert host_to_hit(["host3"], jobs, spread=False) is None


def test_pauses_are_those_of_jobs_that_kept_workers_and_of_this_loss() -> None:
    deed = Deed(T0 + 5.0, Act.KILL, "host1", {"cnn": 2, "mlp": 0})
    events = {
        "cnn": [resized(4.0, "grow", 1, 3, 0.02), resized(6.0, "recover", 3, 2, 0.09)],
        "mlp": [WorkerLost(T0 + 5.1, "w1", "lost", 3), resized(9.0, "start", 0, 1, 0.0)],
    }
    assert survivor_pauses(deed, events, T0 + 20.0) == {"cnn": 0.09}
    assert survivor_pauses(deed, events, T0 + 5.5) == {}


def test_every_deed_has_its_words() -> None:
    for deed in deeds(0.2, 4.0, 5.5, 1.0):
        assert deed.host in deed.sentence()
        assert deed.host in deed.notice()
        assert len(cells(deed)) == len(HEADINGS)
        assert deed.to_json()["noticed_s"] == deed.noticed_s
    assert [deed.is_loss for deed in deeds(0.2, 4.0, 5.5, 1.0)] == [True, False, True, False]


def test_the_demo_succeeds_only_if_all_was_done_and_noticed_and_nothing_is_left() -> None:
    def summary(*noticed_s: float | None, left: int = 0) -> ClusterSummary:
        jobs = Summary((figures_of(detail(), (), None, None),), (), 40.0)
        return ClusterSummary(jobs, deeds(*noticed_s)).cleaned(Cleaned(5, 0, left, True))

    good = summary(0.2, 4.0, 5.5, 1.0)
    assert good.succeeded
    assert good.to_json()["succeeded"] is True
    assert [deed["what"] for deed in good.to_json()["deeds"]] == [act.value for act in Act]
    assert facts(good)["jobs"] == "1 of 1 finished"
    assert not summary(0.2, 4.0, 5.5, None).succeeded
    assert not summary(0.2, 4.0, 5.5, 1.0, left=1).succeeded
    assert not ClusterSummary(good.jobs, good.deeds[:2]).succeeded
