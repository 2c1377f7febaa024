"""One line of a log says why a worker ended."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from elastane.train.coordinator.last_words import last_words


def words(tmp_path: Path, text: str) -> str:
    log = tmp_path / "log"
    log.write_text(text)
    return last_words(log)


def raised(message: str) -> str:
    try:
        try:
            raise KeyError("first")
        except KeyError:
            raise ValueError(message)  # noqa: B904
    except ValueError:
        return traceback.format_exc()


def test_without_an_exception_it_is_the_last_line(tmp_path: Path) -> None:
    assert words(tmp_path, "one\ntwo\n\n") == "two"


def test_the_exception_counts_not_what_follows_it(tmp_path: Path) -> None:
    assert words(tmp_path, f"epoch 1\n{raised('bad')}cleaning up\n") == "ValueError: bad"


def test_of_a_long_message_it_is_the_beginning(tmp_path: Path) -> None:
    assert words(tmp_path, raised("sizes differ:\nweight (3, 4)\nbias (3)")) == "ValueError: sizes differ:"


def test_an_exception_that_was_survived_is_not_the_cause(tmp_path: Path) -> None:
    survived = raised("bad") + "".join(f"epoch {i}\n" for i in range(50))
    assert words(tmp_path, f"{survived}out of money\n") == "out of money"


def test_nothing_said_is_nothing(tmp_path: Path) -> None:
    assert words(tmp_path, "") == ""
    assert last_words(tmp_path / "missing") == ""


def test_the_end_of_a_huge_log_is_enough(tmp_path: Path) -> None:
    assert words(tmp_path, "x" * (1 << 20) + "\nlast\n") == "last"


def test_neither_links_nor_pipes_nor_second_names_are_read(tmp_path: Path) -> None:
    """The folder is the job's, and whoever supervises it may be root."""
    secret, logs = tmp_path / "secret", tmp_path / "run" / "logs"
    secret.write_text("the admin's token\n")
    logs.mkdir(parents=True)
    (logs / "link.log").symlink_to(secret)
    (logs / "second.log").hardlink_to(secret)
    os.mkfifo(logs / "pipe.log")
    (tmp_path / "run" / "elsewhere").symlink_to(tmp_path)
    assert [last_words(logs / f"{name}.log") for name in ("link", "second", "pipe")] == ["", "", ""]
    assert last_words(tmp_path / "run" / "elsewhere" / "secret") == ""
