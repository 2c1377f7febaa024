"""What rank 0 prints comes out once, in whole lines, whoever is rank 0."""

from __future__ import annotations

from pathlib import Path

from elastane.train.coordinator.leader_output import LeaderEcho


class Logs:
    def __init__(self, folder: Path, *, from_start: bool) -> None:
        self.folder = folder
        self.told: list[str] = []
        self.echo = LeaderEcho(lambda worker: folder / worker, self.told.append, from_start=from_start)

    def write(self, worker: str, text: str) -> None:
        with (self.folder / worker).open("a") as file:
            file.write(text)


def test_lines_come_when_they_are_complete(tmp_path: Path) -> None:
    logs = Logs(tmp_path, from_start=True)
    logs.echo.look("w1")
    logs.write("w1", "one\n\ntw")
    logs.echo.look("w1")
    assert logs.told == ["one", ""]
    logs.write("w1", "o\nthr")
    logs.echo.look("w1")
    logs.echo.finish()
    assert logs.told == ["one", "", "two", "thr"]


def test_a_process_that_follows_is_heard_from_its_first_line(tmp_path: Path) -> None:
    logs = Logs(tmp_path, from_start=True)
    logs.write("w1", "one\n")
    logs.echo.look("w1")
    logs.write("w1", "two\n")
    logs.write("w2", "three\n")
    logs.echo.look("w2")
    assert logs.told == ["one", "two", "three"]


def test_a_replica_that_takes_over_does_not_repeat_the_past(tmp_path: Path) -> None:
    logs = Logs(tmp_path, from_start=False)
    logs.write("w1", "one\n")
    logs.write("w2", "one\n")
    logs.echo.look("w1")
    logs.echo.look("w2")
    logs.write("w2", "two\n")
    logs.echo.look("w2")
    assert logs.told == ["one", "two"]
