"""What only the leader does is done, also if the leader dies while doing it."""

from __future__ import annotations

from pathlib import Path

from train.running import train


def test_what_the_leader_was_doing_when_it_died_is_done_by_the_next_one(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    done = train("leading.py", tmp_path / "run", str(notes), workers=2)
    assert done.ended.outcome == "finished", done.ended
    assert [lost.worker for lost in done.lost] == ["w1"]
    writers = [(notes / f"epoch{epoch}").read_text().split() for epoch in range(5)]
    # Begun twice where the leader died, once everywhere else: a worker that joins does not repeat the past.
    assert [len(names) for names in writers] == [1, 1, 2, 1, 1]
    assert writers[2][0] == "w1" != writers[2][1]
