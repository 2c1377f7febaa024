"""Long logs are set aside while their writers go on."""

from __future__ import annotations

from pathlib import Path

from elastane.engines.local.rotation import rotate


def test_a_long_log_is_set_aside_and_its_writer_goes_on_with_an_empty_one(tmp_path: Path) -> None:
    log, other = tmp_path / "w1.log", tmp_path / "w2.log"
    other.write_text("short")
    with log.open("a") as writer:
        writer.write("old" * 100)
        writer.flush()
        assert rotate(tmp_path, 100) == [log]
        writer.write("new")
        writer.flush()
    assert log.read_text() == "new"
    assert (tmp_path / "w1.log.1").read_text() == "old" * 100
    assert other.read_text() == "short"
    assert rotate(tmp_path, 100) == []
