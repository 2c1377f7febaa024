"""How a worker's process runs its script, and how it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elastane.train.coordinator.script_runner import Order, start_cold

LIBRARY = """
class Fragile:
    def __del__(self):
        print("torn down")
"""
SCRIPT = """
from library import Fragile

fragile = Fragile()
print("ran")
"""


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError('wrong')", 1),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_what_a_script_leaves_behind_is_never_torn_down(tmp_path: Path, ending: str, code: int) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    (tmp_path / "library.py").write_text(LIBRARY)
    script.write_text(SCRIPT + ending)
    order = Order("w1", str(script), (), {}, str(log), str(tmp_path))
    with Path(os.devnull).open("w") as note:
        pid = start_cold(order, note.fileno())
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == code
    said = log.read_text()
    assert said.startswith("ran\n")
    assert "torn down" not in said


def test_half_a_character_that_a_script_prints_does_not_end_it(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text("import sys\nprint('a\\udce9b')\nprint('c\\udce9d', file=sys.stderr)\n")
    order = Order("w1", str(script), (), {}, str(log), str(tmp_path))
    with Path(os.devnull).open("w") as note:
        pid = start_cold(order, note.fileno())
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert log.read_text() == "a\\udce9b\nc\\udce9d\n"
