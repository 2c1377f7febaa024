"""What a death by lack of memory means to the coordinator, and how it is told of the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from elastane.train.coordinator.actions import Emit, Finish, Record, Send
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.kernel_kills import KernelKills
from elastane.train.coordinator.membership_plan import Plan
from elastane.train.coordinator.memory_ceiling import Halved, Hopeless, Known, MemoryCeiling
from elastane.train.coordinator.messages import Planned
from elastane.train.coordinator.plan_entries import MemoryLimited, TargetSet
from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.worker_table import Phase, Worker
from elastane.train.exit_cause import ExitCause
from elastane.train.reports.events import Limited

RAISED = ExitCause.of_process(1, out_of_memory=True)
KERNEL = ExitCause.of_process(-9, out_of_memory=True)


def worker(samples: int, entered: int = 1, mode: str = "fixed") -> Worker:
    return Worker("w1", Phase.MEMBER, {"settings": {"mode": mode}}, samples=samples, entered=entered)


def test_members_that_run_out_in_one_step_are_one_occasion() -> None:
    ceiling = MemoryCeiling()
    assert ceiling.judge(worker(64), RAISED, coming=2) == Halved(64, 32)
    assert ceiling.judge(worker(64), RAISED, coming=2) == Known()
    assert ceiling.judge(worker(32, entered=2), RAISED, coming=3) == Halved(32, 16)
    assert ceiling.most == 16


def test_a_worker_that_ignores_the_limit_is_not_excused() -> None:
    ceiling = MemoryCeiling(8)
    assert ceiling.judge(worker(64, entered=5), RAISED, coming=6) == Halved(64, 32)


@pytest.mark.parametrize("cause", [ExitCause.of_process(1), ExitCause.of_process(-9)])
def test_other_deaths_are_not_its_business(cause: ExitCause) -> None:
    assert MemoryCeiling().judge(worker(64), cause, coming=2) is None
    assert MemoryCeiling().judge(worker(0), RAISED, coming=2) is None  # not in a step


def test_when_nothing_is_left_to_halve() -> None:
    one = MemoryCeiling().judge(worker(1), RAISED, coming=2)
    assert isinstance(one, Hopeless)
    fixed = MemoryCeiling().judge(worker(64, mode="consistent"), RAISED, coming=2)
    assert isinstance(fixed, Hopeless)
    # The kernel may have chosen this process because of another's memory.
    assert MemoryCeiling().judge(worker(1), KERNEL, coming=2) is None
    assert MemoryCeiling().judge(worker(64, mode="consistent"), KERNEL, coming=2) is None
    assert MemoryCeiling().judge(worker(64), KERNEL, coming=2) == Halved(64, 32)


def started(coordinator: Coordinator, names: list[str]) -> None:
    coordinator.start(0.0)
    signature = {"elastane": "1", "torch": "2", "python": "3", "parameters": [], "settings": {"mode": "fixed"}}
    for name in names:
        coordinator.workers[name].seen_s = 0.1
        coordinator.ready(name, signature, "", 0.1)
    for name in names:
        coordinator.entered(name, 1, 0, 0.2)
        coordinator.parts(name, 64, 0.3)


@pytest.mark.parametrize("cause", [RAISED, KERNEL])
def test_the_log_remembers_what_the_next_plan_says(cause: ExitCause) -> None:
    coordinator = Coordinator(Settings(workers=2))
    started(coordinator, ["w1", "w2"])
    actions = coordinator.exited("w1", cause, 1.0)
    actions += coordinator.failed("w2", 1, 0, "a peer is gone", 1.1)
    records = [action.entry for action in actions if isinstance(action, Record)]
    assert MemoryLimited(32) in records
    assert [a.event.after for a in actions if isinstance(a, Emit) and isinstance(a.event, Limited)] == [32]
    plans = [a.message.plan for a in actions if isinstance(a, Send) and isinstance(a.message, Planned)]
    assert plans
    assert {plan.most for plan in plans} == {32}
    assert Plan.from_json(plans[0].to_json()) == plans[0]
    log = [TargetSet(2), *records]
    assert Coordinator.after(Settings(workers=2), log)._memory.most == 32
    assert Coordinator.adopt(Settings(workers=2), log, 2.0)._memory.most == 32


def test_no_number_of_halvings_is_five_deaths() -> None:
    coordinator = Coordinator(Settings(workers=1))
    started(coordinator, ["w1"])
    for number in range(1, 7):
        name = f"w{number}"
        actions = coordinator.exited(name, RAISED.told("MemoryError"), 1.0)
        assert not any(isinstance(action, Finish) for action in actions)
        following = f"w{number + 1}"
        coordinator.workers[following].seen_s = 1.0
        coordinator.ready(following, coordinator.workers[name].signature, "", 1.0)
        coordinator.entered(following, coordinator._changes.generations.published, 0, 1.1)
        coordinator.parts(following, 64 >> number, 1.2)
    (end,) = (a for a in coordinator.exited("w7", RAISED.told("MemoryError"), 2.0) if isinstance(a, Finish))
    assert "a single sample on w7" in end.cause


@pytest.mark.parametrize("version", [1, 2])
def test_the_kernels_counter_is_read(tmp_path: Path, version: int) -> None:
    own, group = tmp_path / "cgroup", tmp_path / ("memory/jobs/a" if version == 1 else "jobs/a")
    own.write_text("4:memory:/jobs/a\n0::/\n" if version == 1 else "0::/jobs/a\n")
    group.mkdir(parents=True)
    events = group / ("memory.oom_control" if version == 1 else "memory.events")
    events.write_text("oom 7\noom_kill 3\n")
    kills = KernelKills(own, tmp_path)
    assert not kills.took()
    events.write_text("oom 9\noom_kill 5\n")
    assert [kills.took() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("text", ["", "rubbish", "0::/nowhere\n"])
def test_where_there_is_no_counter_nothing_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "cgroup").write_text(text)
    assert not KernelKills(tmp_path / "cgroup", tmp_path).took()
    assert not KernelKills(tmp_path / "no such file", tmp_path).took()


def test_what_the_kernel_did_is_told_in_words() -> None:
    assert str(KERNEL) == "killed by the kernel: out of memory"
