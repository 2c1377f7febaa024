"""``elastane logs``: which files, in which order, and what a terminal gets of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.live.conftest import Run
from cli.live.fake import Fake


@pytest.fixture(autouse=True)
def files(server: Fake) -> None:
    server.log_files = {
        (1, "w0"): "one\n",
        (1, "w1"): "other one\n",
        (2, "w0"): "two",
        (2, "w1"): "",
    }


def test_the_leader_of_all_attempts_by_default(run: Run) -> None:
    assert run("logs", "j1").stdout == (
        "==> attempt 1, worker w0 <==\none\n==> attempt 2, worker w0 <==\ntwo\n"
    )


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--attempt", "1"), "one\n"),
        (("--attempt", "2"), "two\n"),
        (("--attempt", "1", "--worker", "w1"), "other one\n"),
        (
            ("--attempt", "1", "--all"),
            "==> attempt 1, worker w0 <==\none\n==> attempt 1, worker w1 <==\nother one\n",
        ),
    ],
)
def test_files_are_chosen_by_attempt_and_worker(run: Run, flags: tuple[str, ...], text: str) -> None:
    assert run("logs", "j1", *flags).stdout == text


def test_json_has_every_file_with_its_text(run: Run) -> None:
    document = json.loads(run("logs", "j1", "--json").stdout)
    assert document["id"] == "j1"
    assert [(each["attempt"], each["worker"], each["text"]) for each in document["logs"]] == [
        (1, "w0", "one\n"),
        (2, "w0", "two"),
    ]


def test_following_prints_what_comes(run: Run, server: Fake) -> None:
    server.log_files = {(1, "w0"): "a\nb", (2, "w0"): "c\n"}
    assert run("logs", "-f", "j1").stdout == "a\nbc\n"
    assert [json.loads(line) for line in run("logs", "-f", "j1", "--json").stdout.splitlines()] == [
        {"text": "a\nb"},
        {"text": "c\n"},
    ]


def test_one_worker_can_be_followed(run: Run, server: Fake) -> None:
    run("logs", "-f", "j1", "--worker", "w1")
    assert server.asked == [("follow_logs", "j1", "w1")]


def test_a_long_log_comes_in_parts_and_no_letter_is_torn(run: Run, server: Fake) -> None:
    server.log_files, server.part_bytes = {(1, "w0"): "größe → 模型\n" * 20}, 7
    assert run("logs", "j1").stdout == "größe → 模型\n" * 20
    assert json.loads(run("logs", "j1", "--json").stdout)["logs"][0]["text"] == "größe → 模型\n" * 20


def test_a_job_without_logs_says_so(run: Run, server: Fake) -> None:
    server.log_files = {}
    result = run("logs", "j1")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "elastane why j1" in result.stderr


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        (("--attempt", "7"), "--attempt: there is no attempt 7; known are 1, 2"),
        (("--worker", "w"), "did you mean 'w"),
        (("--worker", "zzz"), "known are w0, w1"),
        (("-f", "--all"), "-f follows one worker"),
        (("-f", "--attempt", "1"), "-f follows one worker"),
        (("--worker", "w0", "--all"), "contradict"),
    ],
)
def test_a_wish_that_nothing_matches_is_a_mistake(run: Run, flags: tuple[str, ...], complaint: str) -> None:
    result = run("logs", "j1", *flags)
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_a_terminal_gets_colours_but_nothing_that_takes_it_over(
    run: Run, server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elastane.cli.live.terminal.is_terminal", lambda: True)
    printed: list[str] = []
    monkeypatch.setattr("typer.echo", lambda text, nl: printed.append(text))
    server.log_files = {(1, "w0"): "\x1b[32mok\x1b[0m\r\x1b]0;owned\x07\x9b2J\n"}
    run("logs", "j1")
    assert "".join(printed) == "\x1b[32mok\x1b[0m\r�]0;owned��2J\n"


def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    script = tmp_path / "logs.py"
    script.write_text(
        "import typer\n"
        "from cli.live.fake import Fake\n"
        "from elastane.cli.live import connection, register\n"
        "fake = Fake(log_files={(1, 'w0'): 'line\\n' * 200_000})\n"
        "connection.connect = lambda: fake\n"
        "app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)\n"
        "app.callback()(lambda: None)\n"
        "register(app)\n"
        "app(['logs', 'j1'])\n"
    )
    tests = str(Path(__file__).parents[2])
    child = subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": tests},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    assert child.stdout.readline() == b"line\n"
    child.stdout.close()
    complaint = child.stderr.read()
    child.stderr.close()
    assert (child.wait(timeout=60), complaint) == (0, b"")
