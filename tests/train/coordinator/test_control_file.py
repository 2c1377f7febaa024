"""The control file is always whole, and a wrong one is a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elastane.train.coordinator.control_file import CONTROL_FILE, Control, ControlFile, control_of
from elastane.train.coordinator.login_reader import Tokens
from elastane.train.errors import TrainError


def test_what_is_written_is_read_and_kept_from_others(tmp_path: Path) -> None:
    file, control = ControlFile(tmp_path), Control("127.0.0.1", 4000, Tokens())
    file.write(control)
    assert file.read() == control
    assert (tmp_path / CONTROL_FILE).stat().st_mode & 0o777 == 0o600
    assert control_of(tmp_path)["token"] == control.tokens.clients
    file.remove()
    with pytest.raises(TrainError, match="no job is running"):
        control_of(tmp_path)


def test_a_writer_that_was_killed_leaves_the_file_before_it(tmp_path: Path) -> None:
    """Half a file of the next one does not stand in the way of the one after it, either."""
    file, control = ControlFile(tmp_path), Control("127.0.0.1", 4000, Tokens())
    file.write(control)
    before = (tmp_path / CONTROL_FILE).stat().st_ino
    (tmp_path / f".{CONTROL_FILE}.1.1").write_text('{"host": "12')
    assert file.read() == control
    file.write(control)
    assert (tmp_path / CONTROL_FILE).stat().st_ino != before, "replaced as a whole, not written over"
    assert file.read() == control


def test_workers_of_an_earlier_version_keep_the_one_token_there_was() -> None:
    control = Control.from_json({"host": "h", "port": 1, "pid": 2, "token": "t"})
    assert control.tokens == Tokens("t", "t")


@pytest.mark.parametrize(
    "text", ["", "[]", "7", "{}", '{"host": "h", "port": null, "token": "t"}', '{"token": 1}']
)
def test_what_nobody_of_ours_wrote_is_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / CONTROL_FILE).write_text(text)
    with pytest.raises(ValueError, match=r".+"):
        ControlFile(tmp_path).read()


def test_it_can_be_read_by_an_earlier_version(tmp_path: Path) -> None:
    ControlFile(tmp_path).write(Control("127.0.0.1", 4000, Tokens("w", "c")))
    known = json.loads((tmp_path / CONTROL_FILE).read_text())
    assert set(known) == {"host", "port", "pid", "token", "workers_token"}
