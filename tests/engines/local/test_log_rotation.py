"""Long logs are set aside while their writers go on."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from elastane.engines.local.log_rotation import rotate, set_aside


def test_a_long_log_is_set_aside_and_its_writer_goes_on_with_an_empty_one(tmp_path: Path) -> None:
    log, other = tmp_path / "w1.log", tmp_path / "w2.log"
    other.write_text("short")
    with log.open("a") as writer:
        writer.write("old" * 100)
        writer.flush()
        assert rotate(tmp_path, 100) == [log]
        writer.write("new")
        writer.flush()
    note, rest = log.read_text().split("\n", 1)
    assert rest == "new"
    assert "its earlier part is in logs/w1.log.1" in note
    assert "dropped" not in note
    assert (tmp_path / "w1.log.1").read_text() == "old" * 100
    assert other.read_text() == "short"
    assert rotate(tmp_path, 1000) == []


def test_a_log_whose_middle_was_dropped_says_so(tmp_path: Path) -> None:
    log = tmp_path / "w1.log"
    for part in ("first", "second", "third"):
        with log.open("a") as writer:
            writer.write(part * 100)
        assert rotate(tmp_path, 200) == [log]
    assert log.read_text().endswith("; what came before that was dropped\n")
    assert "third" in (tmp_path / "w1.log.1").read_text()


def test_a_link_in_place_of_a_log_is_never_followed(tmp_path: Path) -> None:
    """Neither to empty what it points to, nor to copy it, nor to write through the name set aside."""
    logs, victim = tmp_path / "logs", tmp_path / "victim"
    logs.mkdir()
    victim.write_text("precious" * 100)
    (logs / "w1.log").symlink_to(victim)
    (logs / "w2.log").hardlink_to(victim)
    (logs / "w3.log").write_text("long" * 100)
    (logs / "w3.log.1").symlink_to(victim)
    os.mkfifo(logs / "w4.log")
    assert rotate(logs, 100) == [logs / "w3.log"]
    assert victim.read_text() == "precious" * 100
    assert not (logs / "w1.log.1").exists()
    aside = logs / "w3.log.1"
    assert not aside.is_symlink()
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "w1.log").write_text("long" * 100)
    (tmp_path / "logs").symlink_to(other)
    assert rotate(tmp_path / "logs", 100) == []
    assert (other / "w1.log").read_text() == "long" * 100


def test_one_log_can_be_set_aside_by_its_name(tmp_path: Path) -> None:
    for name in ("w1.log", "w2.log"):
        (tmp_path / name).write_text("x" * 10)
    assert set_aside(tmp_path, "w1.log", 5)
    assert not set_aside(tmp_path, "w2.log", 10)
    assert not set_aside(tmp_path, "w3.log", 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["w1.log", "w1.log.1", "w2.log"]
