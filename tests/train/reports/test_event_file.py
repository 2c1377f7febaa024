"""A journal loses nothing but the line its writer died in, and never stops a run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastane.train.errors import TrainError
from elastane.train.reports.event_file import FILE_NAME, Journal, follow, load_run, read_journal
from elastane.train.reports.event_lines import EventLines, line_of
from elastane.train.reports.events import Ended, Event, Warned

WARNINGS = [Warned(float(i), f"number {i}") for i in range(6)]
BYTES = b"".join(line_of(event) for event in WARNINGS)


def write(path: Path, *events: Event) -> None:
    with Journal(path) as journal:
        for event in events:
            journal.write(event)


def test_events_come_back_in_order_also_over_several_writers(tmp_path: Path) -> None:
    path = tmp_path / "run" / FILE_NAME
    write(path, *WARNINGS[:3])
    write(path, *WARNINGS[3:])
    assert list(read_journal(path)) == WARNINGS
    assert list(read_journal(path.parent)) == WARNINGS


def test_one_event_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "e", Warned(1.0, "two\nlines\r\u2028and more"))
    assert (tmp_path / "e").read_bytes().count(b"\n") == 1


@given(st.integers(0, len(BYTES)))
def test_a_writer_that_died_anywhere_costs_at_most_its_last_line(
    tmp_path_factory: pytest.TempPathFactory, length: int
) -> None:
    path = tmp_path_factory.mktemp("torn") / "e"
    path.write_bytes(BYTES[:length])
    whole = WARNINGS[: (BYTES + b"\n")[: length + 1].count(b"\n")]  # a line lacks nothing without its end
    assert list(read_journal(path)) == whole
    write(path, Warned(9.0, "next"))
    reader = read_journal(path)
    assert list(reader) == [*whole, Warned(9.0, "next")]
    assert reader.skipped == (0 if length == sum(len(line_of(event)) for event in whole) else reader.skipped)
    assert reader.skipped <= 1


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe",
        b"{",
        b"[1]",
        b'{"type":"warned"}',
        b"nonsense",
        b"[" * 100_000,
        b'{"type":"warned","at_s":1e999999,"text":""}',
        b'{"type":"warned","at_s":"nan","text":""}',
        b'{"type":"warned","at_s":' + b"9" * 400 + b',"text":""}',
    ],
)
def test_garbage_is_passed_over_and_counted(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "e"
    path.write_bytes(line_of(WARNINGS[0]) + garbage + b"\n\n" + line_of(WARNINGS[1]))
    reader = read_journal(path)
    assert list(reader) == WARNINGS[:2]
    assert reader.skipped == 1


def test_an_event_only_a_later_version_knows_is_not_garbage(tmp_path: Path) -> None:
    (tmp_path / "e").write_bytes(b'{"type":"teleported","at_s":1}\n')
    reader = read_journal(tmp_path / "e")
    assert list(reader) == []
    assert reader.skipped == 0


def test_a_reader_that_is_at_the_end_stays_there(tmp_path: Path) -> None:
    write(tmp_path / "e", *WARNINGS)
    reader = read_journal(tmp_path / "e")
    assert list(reader) == WARNINGS
    assert list(reader) == []


def test_lines_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    with Journal(tmp_path / "e") as journal:

        def work(number: int) -> None:
            for i in range(100):
                journal.write(Warned(float(i), f"{number} " + "x" * (i * 50)))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    reader = read_journal(tmp_path / "e")
    events = list(reader)
    assert len(events) == 400
    assert reader.skipped == 0
    for number in range(4):
        own = [e.at_s for e in events if isinstance(e, Warned) and e.text.startswith(f"{number} ")]
        assert own == list(map(float, range(100)))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_a_full_disk_does_not_end_a_run() -> None:
    with Journal(Path("/dev/full")) as journal:
        journal.write(WARNINGS[0])
        journal.write(WARNINGS[1])
    assert journal.dropped == 2


def test_a_line_that_only_got_half_way_is_ended_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    real = os.write
    with Journal(tmp_path / "e") as journal:
        journal.write(WARNINGS[0])
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[: len(data) // 2]))
        journal.write(WARNINGS[1])
        monkeypatch.setattr(os, "write", real)
        journal.write(WARNINGS[2])
        journal.write(WARNINGS[3])
    reader = read_journal(tmp_path / "e")
    assert list(reader) == [WARNINGS[0], WARNINGS[2], WARNINGS[3]]
    assert reader.skipped == journal.dropped == 1


def test_closing_twice_and_writing_late_do_no_harm(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "e")
    journal.close()
    journal.close()
    journal.write(WARNINGS[0])
    assert journal.dropped == 1
    assert list(read_journal(tmp_path / "e")) == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match=str(tmp_path)):
        Journal(tmp_path)


@pytest.mark.parametrize("missing", ["nowhere", "nowhere/events.jsonl", "."])
def test_a_missing_run_is_named(tmp_path: Path, missing: str) -> None:
    with pytest.raises(TrainError, match=str(tmp_path / missing)):
        read_journal(tmp_path / missing)


@pytest.mark.parametrize(("content", "said"), [(b"", "is empty"), (b"a\nb\n", "none of its 2 lines")])
def test_a_run_without_events_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(TrainError, match=f"{FILE_NAME}.*{said}"):
        load_run(tmp_path)


def test_a_run_loads_from_its_folder(tmp_path: Path, run: tuple[Event, ...]) -> None:
    write(tmp_path / FILE_NAME, *run)
    assert load_run(tmp_path) == list(run)


@given(st.lists(st.integers(0, len(BYTES)), max_size=8))
def test_lines_are_put_together_from_pieces_of_any_size(cuts: list[int]) -> None:
    lines, events = EventLines(), []
    edges = [0, *sorted(cuts), len(BYTES)]
    for a, b in pairwise(edges):
        events += lines.feed(BYTES[a:b])
    events += lines.finish()
    assert events == WARNINGS
    assert lines.skipped == 0


def test_garbage_without_an_end_does_not_fill_the_memory() -> None:
    lines = EventLines()
    for _ in range(20):
        assert list(lines.feed(b"x" * (1 << 20))) == []
    assert len(lines._rest) < 1 << 23
    assert list(lines.feed(b"\n" + line_of(WARNINGS[0]))) == WARNINGS[:1]
    assert lines.skipped == 1


def following(
    path: Path, stop: threading.Event | None
) -> tuple[Iterator[Event], threading.Thread, list[Event]]:
    found: list[Event] = []
    events = follow(path, stop)
    thread = threading.Thread(target=lambda: found.extend(events))
    thread.start()
    return events, thread, found


def test_a_follower_gets_what_is_there_what_comes_and_what_came_before_it_was_stopped(tmp_path: Path) -> None:
    path, stop = tmp_path / "run" / FILE_NAME, threading.Event()
    events = follow(path, stop)
    write(path, WARNINGS[0])
    assert next(events) == WARNINGS[0]
    write(path, WARNINGS[1])
    assert next(events) == WARNINGS[1]
    write(path, *WARNINGS[2:])
    stop.set()
    assert list(events) == WARNINGS[2:]


def test_a_follower_waits_for_a_file_that_is_not_there_yet_and_leaves_with_the_run(tmp_path: Path) -> None:
    _, thread, found = following(tmp_path / "e", None)
    end = Ended(9.0, "finished", "", 10, 9.0)
    write(tmp_path / "e", *WARNINGS, end)
    thread.join(10)
    assert not thread.is_alive()
    assert found == [*WARNINGS, end]


def test_a_follower_does_not_leave_at_the_end_of_an_earlier_session(tmp_path: Path) -> None:
    end = Ended(9.0, "stopped", "", 10, 9.0)
    write(tmp_path / "e", end, WARNINGS[0], end)
    assert list(follow(tmp_path / "e")) == [end, WARNINGS[0], end]


def test_a_follower_waits_for_the_rest_of_a_line(tmp_path: Path) -> None:
    path, stop = tmp_path / "e", threading.Event()
    line = line_of(WARNINGS[1])
    path.write_bytes(line_of(WARNINGS[0]) + line[:10])
    events = follow(path, stop)
    assert next(events) == WARNINGS[0]
    with path.open("ab") as file:
        file.write(line[10:])
    assert next(events) == WARNINGS[1]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_follower_that_comes_late_reads_a_long_run_to_its_end(tmp_path: Path, stopped: bool) -> None:
    long = [Warned(float(i), "x" * 1000) for i in range(300)]
    write(tmp_path / "e", *long, Ended(9.0, "finished", "", 10, 9.0))
    stop = threading.Event()
    stop.set()
    assert len(list(follow(tmp_path / "e", stop if stopped else None))) == 301
