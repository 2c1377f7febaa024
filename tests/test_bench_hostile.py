"""The group ``hostile`` counts a deed only if it happened, sees who hides, and judges by the gates of the issue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figures import Figures
from benchmarks.live.hostile import Trial, chosen
from benchmarks.live.poisons import ADAPTIVE, APART, DEEDS
from benchmarks.live.scripts.poisons.place import Place
from benchmarks.live.system import System, kill_one
from benchmarks.live.verdict import Outcome, judge_answers
from benchmarks.train.live import ROOT

AS_FOUND = ROOT / "benchmarks" / "live" / "scripts" / "as_found.py"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A job's folder and the service's records of it, as they lie in a home."""
    run, scratch = tmp_path / "home" / "jobs" / "j1" / "run", tmp_path / "scratch"
    (run / "logs").mkdir(parents=True)
    (tmp_path / "home" / "control" / "j1" / "attempt-1").mkdir(parents=True)
    scratch.mkdir()
    made = Place(run, scratch)
    (made.records / "events.jsonl").write_text("")
    return made


def poison(place: Place, name: str, text: str, what: str = "") -> set[str]:
    """Run a poison; what it then says of itself."""
    script = place.scratch.parent / name
    script.write_text(text)
    subprocess.run(
        [sys.executable, str(AS_FOUND), str(script), str(place.scratch), what],
        env={**os.environ, "PYTHONPATH": str(ROOT), "ELASTANE_RUN": str(place.run)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=60.0,
    )
    return {path.name for path in place.scratch.iterdir()} & {"deed", "broken", "hindered"}


SPOIL = "import os, time; open(os.environ['ELASTANE_RUN'] + '/events.jsonl', 'a').write('x'); time.sleep(0.01)"


@pytest.mark.parametrize(
    ("name", "text", "what", "said"),
    [
        ("attack.py", SPOIL, "deep", {"deed"}),
        ("attack.py", "1 / 0", "deep", {"broken"}),
        ("attack.py", "import time; time.sleep(0.01)", "deep", {"broken"}),  # its journal is as it was
        ("attack.py", "import os; os.unlink('nowhere')", "fifo", {"broken"}),
        ("attack.py", "raise PermissionError(13, 'closed')", "deep", {"deed", "hindered"}),
        ("rot.py", "import time; time.sleep(0.01)", "", {"broken"}),
        ("steal.py", "print('nothing')", "", {"deed"}),
        ("surr1.py", "import os; open(os.fsdecode(b'/data/caf\\xe9.bin'))", "", {"deed"}),
        ("surr2.py", "import nowhere", "", {"broken"}),
    ],
)
def test_a_found_poison_has_done_its_deed_only_if_that_happened(
    place: Place, name: str, text: str, what: str, said: set[str]
) -> None:
    assert poison(place, name, text, what) == said


ESCAPE = """
import os
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "60"], {})
    os._exit(0)
os.close(writing)
os.read(reading, 1)  # ends when the other one has become sleep, which closes its end
"""


def test_a_process_of_a_found_poison_that_escapes_is_seen(place: Place, tmp_path: Path) -> None:
    assert poison(place, "escape.py", ESCAPE) == {"deed"}
    trial = Trial(tmp_path / "trial", System(tmp_path / "home"), Outcome())
    (trial._scratch).mkdir()
    place.scratch.rename(trial._scratch / "shared escape")
    left = trial._left({"shared escape": "j1"})
    try:
        assert list(left.values()) == ["shared escape"]
        [pid] = left
        assert Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x0060\x00"
    finally:
        for pid in left:
            kill_one(pid)


def test_who_ends_without_its_deed_has_not_done_it(tmp_path: Path) -> None:
    class Over:
        def jobs(self, *_: object, **__: object) -> list[object]:
            return [type("Job", (), {"id": job, "state": "failed"}) for job in ("j1", "j2")]

        def job(self, job: str) -> object:
            return type("Job", (), {"state": "failed"})

    trial = Trial(tmp_path / "trial", System(tmp_path / "home"), Outcome())
    for name in ("done", "not done"):
        (trial._scratch / name).mkdir(parents=True)
    (trial._scratch / "done" / "deed").touch()
    (trial._scratch / "not done" / "broken").write_text("Traceback …\nValueError: no")
    trial._wait_for_deeds(Over(), {"done": "j1", "not done": "j2"})  # type: ignore[arg-type]
    assert trial.outcome.undone == ["not done is failed : ValueError: no"]


@pytest.mark.parametrize(
    ("worst_ms", "base_ms", "kind", "ok", "passes"),
    [
        (99.0, 20.0, "gate", True, True),
        (99.0, 500.0, "gate", True, True),
        (101.0, 20.0, "gate", False, False),
        (149.0, 60.0, "gate", False, False),  # nothing is added for a machine that is merely slow
        (184.0, 145.0, "not judged", False, True),
        (
            246.0,
            145.0,
            "not judged",
            False,
            False,
        ),  # on any machine hostile jobs may add no more than the limit
    ],
)
def test_the_gate_of_answers_is_the_plain_figure(
    tmp_path: Path,
    worst_ms: float,
    base_ms: float,
    kind: str,
    ok: bool,
    passes: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = Figures("made-up", tmp_path)
    judge_answers(figures, "p99", worst_ms, 100.0, base_ms)
    figure, *more = figures.all
    assert (figure.value, figure.kind, figure.ok) == (worst_ms, kind, ok)
    added = [(worst_ms - base_ms, "gate", passes)] if kind == "not judged" else []
    assert [(each.value, each.kind, each.ok) for each in more] == added
    with pytest.raises(SystemExit) as ended:
        figures.finish()
    assert ended.value.code == (0 if passes else 1)
    said = capsys.readouterr().out
    assert ("NOT JUDGED" in said) == (kind == "not judged")
    assert ("machine too slow, baseline 145 ms" in said) == (kind == "not judged")
    assert json.loads((tmp_path / "made-up.json").read_text())[0]["kind"] == kind


def test_some_poisons_are_tried_as_adaptive_jobs_and_as_users_of_their_own(tmp_path: Path) -> None:
    assert set(ADAPTIVE) | set(APART) <= set(DEEDS)
    adaptive = [each for each in chosen(tmp_path, (), quick=False) if each.name.startswith("adaptive ")]
    assert [each.kind for each in adaptive] == ["adaptive"] * len(ADAPTIVE)
