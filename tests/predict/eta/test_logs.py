"""Logs as they are: ours, HF Trainer's, Lightning's; torn, doubled, out of order, resumed."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from elastane.errors import ElastaneError
from elastane.predict.eta import Doing, EarlyStop
from elastane.predict.eta.log_parsers import Lines
from elastane.predict.eta.log_session import LogWatch
from elastane.predict.eta.logs import follow, records
from elastane.predict.interval import Interval, Unknown


def watched(path: Path, **options: Any) -> LogWatch:
    watch = LogWatch(**options)
    for record in records(path):
        watch.observe(record)
    return watch


def left(path: Path, **options: Any) -> float:
    found = watched(path, **options).remaining()
    assert isinstance(found, Interval), found
    return found.middle


def started(at_s: float) -> dict[str, Any]:
    return {"type": "started", "at_s": at_s, "workers": 1, "batch": 8}


def stepped(at_s: float, step: int, fraction: float | None, workers: int = 1, **more: Any) -> dict[str, Any]:
    return {"type": "stepped", "at_s": at_s, "step": step, "epoch": 0, "workers": workers, "batch": 8,
            "steps": 10, "step_s": 0.1, "fraction": fraction, **more}  # fmt: skip


def ours(count: int = 100, total: int = 1000, start: int = 0) -> list[dict[str, Any]]:
    """One report a second, ten steps each."""
    return [started(1000.0)] + [
        stepped(1001.0 + i, start + 10 * (i + 1), (start + 10 * (i + 1)) / total) for i in range(count)
    ]


def write(path: Path, rows: list[dict[str, Any]], tail: str = "") -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + tail)
    return path


def test_our_own_events_give_the_time_left(tmp_path: Path) -> None:
    write(tmp_path / "events.jsonl", ours(50))
    assert left(tmp_path) == pytest.approx(50.0, rel=0.02)


def test_a_resumed_run_is_judged_by_its_last_session(tmp_path: Path) -> None:
    rows = [*ours(50), started(90_000.0)]
    assert isinstance(watched(write(tmp_path / "a.jsonl", rows)).remaining(), Unknown)
    rows += [stepped(90_000.0 + 6 * i, 500 + i, (500 + i) / 1000) for i in range(1, 12)]
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(489 * 6.0, rel=0.02)


def test_noise_in_the_file_changes_nothing(tmp_path: Path) -> None:
    rows = ours(60)
    plain = left(write(tmp_path / "plain.jsonl", rows))
    doubled = [each for row in rows for each in (row, row)]
    shifted = doubled[:]
    draw = random.Random(1)
    for _ in range(10):
        place = draw.randrange(2, len(shifted) - 12)
        shifted.insert(place + 4, shifted.pop(place))
    noisy = write(tmp_path / "noisy.jsonl", shifted, tail='{"type": "stepped", "at_s": 99')
    noisy.write_text(noisy.read_text().replace("\n", "\nnot json at all\n", 1))
    assert left(noisy) == pytest.approx(plain, rel=0.02)


def test_two_ranks_that_write_the_same_steps_count_once(tmp_path: Path) -> None:
    rows = [each for row in ours(60) for each in (row, {**row, "at_s": row["at_s"] + 0.01})]
    rows = [row for row in rows if row["type"] != "started" or row["at_s"] == 1000.0]
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(40.0, rel=0.03)


def test_a_suspended_machine_and_a_jumping_clock_change_nothing(tmp_path: Path) -> None:
    rows = ours(60)
    for row in rows[40:]:
        row["at_s"] += 3 * 3600.0
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(40.0, rel=0.03)


def test_a_clock_set_back_does_not_end_the_counting(tmp_path: Path) -> None:
    rows = ours(60)
    for row in rows[30:]:
        row["at_s"] -= 500.0
    found = watched(write(tmp_path / "a.jsonl", rows)).remaining()
    assert isinstance(found, Interval)
    assert found.middle == pytest.approx(40.0, rel=0.05)


def test_a_change_of_workers_begins_a_new_rate(tmp_path: Path) -> None:
    rows = ours(40)
    rows.append({"type": "resized", "at_s": 1041.0, "before": 1, "after": 2})
    rows += [stepped(1041.0 + 0.5 * i, 400 + 10 * i, (400 + 10 * i) / 1000, workers=2) for i in range(1, 21)]
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(20.0, rel=0.05)


def test_validation_inside_a_window_is_not_taken_for_training(tmp_path: Path) -> None:
    rows, now = [started(0.0)], 0.0
    for i in range(1, 61):
        now += 1.0
        if i % 20 == 0:
            now += 30.0
            rows.append({"type": "evaluated", "at_s": now, "epoch": i // 20, "step": 10 * i})
        rows.append(stepped(now, 10 * i, 10 * i / 1000))
    # 40 windows of one second, and two more validations of half a minute.
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(100.0, rel=0.05)


def test_lost_steps_are_taken_again(tmp_path: Path) -> None:
    rows = ours(50)
    rows += [stepped(1051.0 + i, 300 + 10 * i, (300 + 10 * i) / 1000) for i in range(1, 11)]
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(60.0, rel=0.05)


@pytest.mark.parametrize("outcome", ["finished", "failed"])
def test_a_run_that_ended_has_nothing_left(tmp_path: Path, outcome: str) -> None:
    rows = [
        *ours(10),
        {"type": "ended", "at_s": 2000.0, "outcome": outcome, "cause": "", "step": 100, "wall_s": 9.0},
    ]
    assert left(write(tmp_path / "a.jsonl", rows)) == 0.0


def test_hf_checkpoints_tell_the_time_that_hf_does_not_log(tmp_path: Path) -> None:
    for step in (100, 200, 300):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        state = folder / "trainer_state.json"
        state.write_text(
            json.dumps({"global_step": step, "max_steps": 1000, "epoch": step / 250, "log_history": []})
        )
        os.utime(state, (step * 2.0, step * 2.0))
    assert left(tmp_path) == pytest.approx(1400.0, rel=0.01)


def test_hf_lines_with_times_and_fractional_epochs(tmp_path: Path) -> None:
    rows = [
        {"loss": 1.0, "epoch": i / 10, "step": 10 * i, "timestamp": 5.0 * i, "num_train_epochs": 3}
        for i in range(1, 15)
    ]
    assert left(write(tmp_path / "log.jsonl", rows)) == pytest.approx((300 - 140) * 0.5, rel=0.01)


def test_lightning_has_no_times_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,train_loss\n0,9,1.5\n0,19,1.25\n")
    found = watched(tmp_path, total_steps=100).remaining()
    assert isinstance(found, Unknown)
    assert "--follow" in found.reason


def test_a_log_without_times_is_timed_while_it_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train_loss\n0,10,1.5\n")
    clock = {"now": 100.0, "step": 10}

    def wait() -> bool:
        clock["now"] += 4.0
        clock["step"] += 2
        with path.open("a") as file:
            file.write(f"0,{int(clock['step'])},1.0\n")
        return clock["step"] < 40

    watch = LogWatch(total_steps=100)
    for record in follow(path, wait, lambda: clock["now"]):
        if record is not None:
            watch.observe(record)
    found = watch.remaining()
    assert isinstance(found, Interval)
    assert found.middle == pytest.approx((100 - watch.step) * 2.0, rel=0.01)


def test_a_rotated_log_is_read_from_its_new_beginning(tmp_path: Path) -> None:
    path, looks = write(tmp_path / "a.jsonl", ours(30)), 0

    def wait() -> bool:
        nonlocal looks
        looks += 1
        if looks == 1:
            write(path, ours(20)[1:])
        return looks < 2

    seen = [record for record in follow(path, wait, lambda: 0.0) if record is not None]
    assert len(seen) == 31 + 20


def test_no_steps_no_log_no_answer(tmp_path: Path) -> None:
    assert isinstance(watched(write(tmp_path / "a.jsonl", [started(0.0)])).remaining(), Unknown)
    assert isinstance(watched(write(tmp_path / "b.jsonl", [])).remaining(), Unknown)
    assert isinstance(watched(write(tmp_path / "c.jsonl", ours(1))).remaining(), Unknown)
    with pytest.raises(ElastaneError, match="there is no log"):
        watched(tmp_path / "none")


def test_odd_lines_are_counted_and_passed_over() -> None:
    lines = Lines()
    deep = '{"a":' * 100_000
    got = list(lines.feed(f'[1]\nnull\n{{"step": 1e999}}\n{deep}\n{{"step": 5, "time": "soon"}}\n'))
    assert [record.step for record in got] == [None, 5]
    assert lines.skipped == 3


def hf(validation_s: float = 20.0) -> list[dict[str, Any]]:
    """Half a second a step; an evaluation follows the line of its step."""
    rows, now = [], 1000.0
    for step in range(10, 401, 10):
        now += 5.0
        rows.append({"loss": 1.0, "step": step, "epoch": step / 250, "timestamp": now, "max_steps": 1000})
        if step % 100 == 0:
            now += validation_s
            rows.append(
                {"eval_loss": 2.0 / step, "eval_runtime": validation_s - 1.0, "step": step, "timestamp": now}
            )
    return rows


def test_hf_evaluations_are_timed_apart_and_counted(tmp_path: Path) -> None:
    watch = watched(write(tmp_path / "log.jsonl", hf()))
    assert watch.engine is not None
    assert watch.engine.elapsed_s[Doing.VALIDATION] == pytest.approx(80.0)
    found = watch.remaining()
    assert isinstance(found, Interval)
    assert found.middle == pytest.approx(600 * 0.5 + 6 * 20.0, rel=0.01)


def test_the_metric_may_stop_a_run_early(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", hf())
    stopping = watched(path, stop=EarlyStop(target=0.0001), metric="eval_loss").remaining()
    plain = watched(path).remaining()
    assert isinstance(stopping, Interval)
    assert isinstance(plain, Interval)
    assert stopping.low < plain.low
    assert stopping.high <= plain.high
    unknown = watched(path, stop=EarlyStop(target=0.9, rising=True), metric="accuracy").remaining()
    assert isinstance(unknown, Unknown)
    assert "eval_loss" in unknown.reason


def test_hf_closes_its_log_with_a_summary(tmp_path: Path) -> None:
    rows = [*hf(), {"train_runtime": 260.0, "train_loss": 0.1, "step": 400, "timestamp": 2000.0}]
    assert left(write(tmp_path / "log.jsonl", rows)) == 0.0


def test_hf_checkpoints_that_appear_while_it_is_followed(tmp_path: Path) -> None:
    def checkpoint(step: int) -> None:
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        history = [{"eval_loss": 1.0 / at, "step": at} for at in range(100, step + 1, 100)]
        state = {"global_step": step, "max_steps": 1000, "log_history": history}
        (folder / "trainer_state.json").write_text(json.dumps(state))
        os.utime(folder / "trainer_state.json", (step * 2.0, step * 2.0))

    checkpoint(100)
    steps = iter((200, 300, 400))

    def wait() -> bool:
        step = next(steps, None)
        if step is not None:
            checkpoint(step)
        return step is not None

    watch = LogWatch(stop=EarlyStop(target=0.0001))
    for record in follow(tmp_path, wait, lambda: 0.0):
        if record is not None:
            watch.observe(record)
    found = watch.remaining()
    assert watch.engine is not None
    assert len(watch.engine.values) == 4
    assert isinstance(found, Interval)
    assert found.high >= 1200.0


def test_lightning_writes_its_table_anew_for_a_new_column(tmp_path: Path) -> None:
    path, now = tmp_path / "metrics.csv", 0.0
    path.write_text("epoch,step,train_loss\n0,9,1.0\n")
    looks = 0

    def wait() -> bool:
        nonlocal looks, now
        looks, now = looks + 1, now + 5.0
        rows = [f"{at // 50},{at},1.0," for at in range(9, 10 * looks + 10, 10)]
        header = "epoch,step,train_loss,val_loss" if looks >= 5 else "epoch,step,train_loss"
        if looks >= 5:
            rows.insert(5, "0,49,,0.7")
        lines = rows if looks >= 5 else [row.rstrip(",") for row in rows]
        path.write_text("\n".join([header, *lines]) + "\n")
        return looks < 12

    watch = LogWatch(epochs=4)
    for record in follow(path, wait, lambda: now):
        if record is not None:
            watch.observe(record)
    assert watch.metrics == {"val_loss"}
    found = watch.remaining()
    assert isinstance(found, Interval)
    assert found.middle == pytest.approx((200 - watch.step) * 0.5, rel=0.1)


def test_ranks_other_than_the_first_and_times_in_words(tmp_path: Path) -> None:
    rows = [
        {"step": i, "rank": rank, "timestamp": f"2026-11-16T10:00:{i:02d}+00:00", "max_steps": 100}
        for i in range(1, 51)
        for rank in (1, 0)
    ]
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(50.0, rel=0.02)


def test_a_file_that_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"\x00\xff\n" * 50)
    with pytest.raises(ElastaneError, match="is no log"):
        watched(path)


def test_a_run_that_ended_may_be_taken_up_again(tmp_path: Path) -> None:
    rows = [
        *ours(50),
        {"type": "ended", "at_s": 1060.0, "outcome": "failed", "cause": "", "step": 500, "wall_s": 9.0},
    ]
    assert left(write(tmp_path / "a.jsonl", rows)) == 0.0
    rows += [started(2000.0), *(stepped(2000.0 + i, 500 + 10 * i, 0.5 + i / 100) for i in range(1, 12))]
    assert left(write(tmp_path / "a.jsonl", rows)) == pytest.approx(39.0, rel=0.02)


def test_the_time_since_the_last_report_has_passed_unless_it_is_overdue(tmp_path: Path) -> None:
    watch = watched(write(tmp_path / "a.jsonl", ours(50)))
    told = [watch.remaining(1050.0 + late) for late in (0.0, 0.5, 60.0, -5.0)]
    middles = [each.middle for each in told if isinstance(each, Interval)]
    assert middles == pytest.approx([50.0, 49.5, 50.0, 50.0], rel=1e-3)
