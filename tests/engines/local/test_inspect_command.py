"""Commands are looked at before they run: good news may be a second old, bad news never is."""

from __future__ import annotations

from pathlib import Path

from elastane.engines.local.inspect_command import Examiner


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_script_that_appears_is_found_at_once(tmp_path: Path) -> None:
    examiner, command = Examiner(Clock()), ["python", "train.py"]
    assert "no script" in examiner.examine("auto", command, str(tmp_path), {}).missing
    (tmp_path / "train.py").write_text("print(1)\n")
    assert examiner.examine("auto", command, str(tmp_path), {}).kind == "command"


def test_a_script_that_changes_is_looked_at_again_a_moment_later(tmp_path: Path) -> None:
    clock = Clock()
    examiner, command, script = Examiner(clock), ["python", "train.py"], tmp_path / "train.py"
    script.write_text("print(1)\n")
    assert examiner.examine("auto", command, str(tmp_path), {}).kind == "command"
    script.write_text("import elastane.train as et\n")
    assert examiner.examine("auto", command, str(tmp_path), {}).kind == "command"
    clock.now_s += 1.0
    assert examiner.examine("auto", command, str(tmp_path), {}).kind == "adaptive"


def test_the_same_words_elsewhere_or_of_another_kind_are_another_command(tmp_path: Path) -> None:
    examiner, command = Examiner(Clock()), ["python", "train.py"]
    (tmp_path / "train.py").write_text("print(1)\n")
    assert examiner.examine("auto", command, str(tmp_path), {}).kind == "command"
    assert examiner.examine("resizable", command, str(tmp_path), {}).kind == "resizable"
    assert examiner.examine("auto", command, str(tmp_path.parent), {}).missing


def test_no_number_of_commands_fills_the_memory(tmp_path: Path) -> None:
    examiner = Examiner(Clock())
    for number in range(1000):
        examiner.examine("auto", ["sh", "-c", str(number)], str(tmp_path), {})
    assert len(examiner._seen) <= 256
