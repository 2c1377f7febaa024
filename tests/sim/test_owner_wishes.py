"""What owners ask for reaches the policies of the simulator, as it does on the live system."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from elastane.jobs.kinds import Kind
from elastane.policies.contract import Needs, Policy
from elastane.policies.fifo import Fifo
from elastane.policies.plan import Plan
from elastane.policies.view import Info, View
from elastane.scheduling.abilities_by_kind import ABILITIES
from elastane.sim.result import JobRecord, RunResult
from elastane.sim.run import prepare, simulate
from elastane.sim.spec import RunSpec
from elastane.simcore.physics import Physics
from elastane.simcore.world import World

HEADER = "id,submit_s,gpus,duration_s,class,kind,tenant,priority,weight,deadline_s\n"


def run(tmp_path: Path, rows: str, policy: str, cluster: str = "1x1:t4") -> RunResult:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + rows)
    return simulate(RunSpec(workload=str(path), policy=policy, cluster=cluster))


def started(result: RunResult) -> list[str]:
    """Ids by their first start."""
    return [job.id for job in sorted(result.jobs, key=lambda job: job.start_s or 0.0)]


def finished(result: RunResult) -> list[str]:
    """Ids by their ends; our own policy measures both of two equal jobs before it says which goes first."""
    return [job.id for job in sorted(result.jobs, key=lambda job: job.finish_s or 0.0)]


def of(result: RunResult, job: str) -> JobRecord:
    return next(record for record in result.jobs if record.id == job)


@pytest.mark.parametrize("first", ["a", "b"])
def test_of_two_equal_jobs_the_guaranteed_one_goes_first(tmp_path: Path, first: str) -> None:
    classes = {"a": "opportunistic", "b": "opportunistic", first: "guaranteed"}
    rows = "".join(f"{job},0,1,1200,{klass},rigid,,,,\n" for job, klass in classes.items())
    result = run(tmp_path, rows, "elastane")
    assert finished(result)[0] == first
    (note,) = [note for note in result.notes if "by class" in note]
    assert note.index("guaranteed") < note.index("opportunistic")


@pytest.mark.parametrize("first", ["a", "b"])
def test_of_two_equal_jobs_the_heavier_one_goes_first(tmp_path: Path, first: str) -> None:
    weights = {"a": 1, "b": 1, first: 4}
    rows = "".join(f"{job},0,1,1200,,rigid,,,{weight},\n" for job, weight in weights.items())
    assert finished(run(tmp_path, rows, "elastane"))[0] == first


def test_the_higher_priority_goes_first_in_a_queue(tmp_path: Path) -> None:
    rows = "a,0,1,600,,,,0,,\nb,0,1,600,,,,5,,\nc,0,1,600,,,,-1,,\n"
    assert started(run(tmp_path, rows, "fifo")) == ["b", "a", "c"]


def test_tenants_share_the_cluster(tmp_path: Path) -> None:
    rows = "a,0,1,3600,,,vision,,,\nb,0,1,3600,,,vision,,,\nc,1,1,3600,,,speech,,,\n"
    result = run(tmp_path, rows, "drf", "2x1:t4")
    assert {job.tenant for job in result.jobs} == {"vision", "speech"}
    later = run(tmp_path, "a,0,1,3600,,,v,,,\nb,1,1,3600,,,v,,,\nc,2,1,3600,,,s,,,\n", "drf")
    assert started(later) == ["a", "c", "b"]


def test_a_deadline_counts_from_the_submission(tmp_path: Path) -> None:
    result = run(tmp_path, "a,100,1,600,,,,,,900\nb,160,1,600,,,,,,\n", "elastane")
    assert (of(result, "a").deadline_s, of(result, "b").deadline_s) == (900.0, None)


def test_kinds_say_what_may_be_done_to_a_job(tmp_path: Path) -> None:
    kinds = ("adaptive", "resizable", "rigid", "command")
    rows = "".join(f"{kind},{90 * number},2,3000,,{kind},,,,\n" for number, kind in enumerate(kinds))
    crowd = "".join(f"x{number},{600 * number},1,300,guaranteed,,,,,\n" for number in range(1, 12))
    result = run(tmp_path, rows + crowd, "elastane", "1x4:t4")
    sizes = {kind: {part.gpus for part in of(result, kind).stretches if part.gpus} for kind in kinds}
    batches = {kind: {part.batch for part in of(result, kind).stretches if part.gpus} for kind in kinds}
    assert len(sizes["adaptive"]) > 1
    assert len(sizes["resizable"]) > 1
    assert sizes["rigid"] == sizes["command"] == {2}
    assert [len(batches[kind]) for kind in ("resizable", "rigid", "command")] == [1, 1, 1]
    assert of(result, "command").restarts == 0
    parts = of(result, "command").stretches
    assert all(part.gpus and part.end_s == after.start_s for part, after in pairwise(parts))


@pytest.mark.parametrize("policy", ["tiresias", "pollux", "srtf", "optimus"])
def test_no_policy_stops_a_command(tmp_path: Path, policy: str) -> None:
    rows = "long,0,2,7200,,command,,,,\n" + "".join(f"s{i},{60 * i},2,120,,,,,,\n" for i in range(1, 8))
    job = of(run(tmp_path, rows, policy, "1x2:t4"), "long")
    assert job.start_s is not None
    assert job.finish_s is not None
    assert job.restarts == 0
    assert job.service_gpu_s == pytest.approx(2.0 * (job.finish_s - job.start_s))


@dataclass(frozen=True)
class Watching(Policy):
    """Decides as FIFO does, and keeps the views it was asked about."""

    seen: list[View] = field(default_factory=list)

    name: ClassVar[str] = "watching"
    title: ClassVar[str] = "Watching"
    paper: ClassVar[str] = ""
    needs: ClassVar[Needs] = Needs(info=Info.DEADLINE)

    def decide(self, view: View) -> Plan:
        self.seen.append(view)
        return Fifo().decide(view)


def test_policies_are_shown_every_column(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEADER}a,0,1,600,opportunistic,command,vision,-2,2.5,900\nb,0,1,600,,resizable,,,,\n")
    policy = Watching()
    cluster, arrivals, _ = prepare(RunSpec(workload=str(path), policy="fifo", cluster="1x2:t4"))
    World(cluster, policy, arrivals, Physics()).run()
    jobs = {name: job for view in policy.seen for name, job in view.jobs.items()}
    a, b = jobs["a"], jobs["b"]
    assert (a.klass, a.tenant, a.priority, a.weight, a.deadline_s) == (
        "opportunistic",
        "vision",
        -2,
        2.5,
        900.0,
    )
    assert (a.abilities, b.abilities) == (ABILITIES[Kind.COMMAND], ABILITIES[Kind.RESIZABLE])
    assert (b.klass, b.tenant, b.priority, b.weight, b.deadline_s) == ("normal", "default", 0, 1.0, None)


def test_facts_of_a_plain_workload_are_what_they_were() -> None:
    _, arrivals, notes = prepare(RunSpec(workload="pollux:6,jobs=20", policy="fifo"))
    told = {(job.klass, job.kind, job.tenant, job.priority, job.weight, job.deadline_s) for job in arrivals}
    assert told == {("normal", Kind.ADAPTIVE, "default", 0, 1.0, None)}
    assert not any("owners ask" in note for note in notes)
