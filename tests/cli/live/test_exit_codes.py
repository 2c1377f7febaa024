"""Exit codes, help and completion: what scripts and shells rely on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.live.conftest import Run
from cli.live.fake import Fake, conflict, not_found
from elastane.cli.live import completion, register
from elastane.cli.live.exit_codes import MEANING, ExitCode
from elastane.client.errors import Busy, Forbidden, NotRunning, RequestRefused, SpecRefused, Unauthorized
from elastane.errors import ElastaneError
from elastane.jobs.problems import Problem as Wrong
from elastane.jobs.problems import SpecError
from elastane.service.messages import Problem

ONE_JOB = ["status", "logs", "why", "eta", "cancel", "suspend", "resume"]
EVERY_VERB = [
    "submit",
    "queue",
    "status",
    "logs",
    "why",
    "eta",
    "cancel",
    "suspend",
    "resume",
    "scale",
    "move",
    "nodes",
    "drain",
    "history",
    "policy",
    "user",
    "token",
    "quota",
    "events",
]


def test_the_help_names_every_verb_and_every_exit_code(run: Run) -> None:
    text = run("--help").stdout
    assert {line.split()[0] for line in text.splitlines() if line.startswith("  ")} >= set(EVERY_VERB)
    assert MEANING.keys() == set(ExitCode)
    for code, meaning in MEANING.items():
        assert f"{code.value:>3}  {meaning}" in text


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_every_verb_takes_json_and_explains_itself(run: Run, verb: str) -> None:
    result = run(verb, "--help")
    if verb in ("policy", "user", "token", "quota", "history"):
        result = run(verb, "show" if verb == "policy" else "list", "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_an_unknown_flag_is_the_users_mistake(run: Run, server: Fake, verb: str) -> None:
    assert run(verb, "--no-such-flag").exit_code == 2
    assert server.asked == []


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (not_found("j1"), 3),
        (conflict("j1 has ended"), 1),
        (RequestRefused(Problem(error="an internal error", kind="internal")), 1),
        (RequestRefused(Problem(error="the cluster has 4 slots", kind="refused")), 2),
        (Busy(Problem(error="too many requests")), 1),
        (NotRunning("no Elastane is running"), 1),
        (Unauthorized(Problem(error="the token is not good")), 4),
        (Forbidden(Problem(error="j1 is not yours")), 4),
        (SpecRefused(Problem(error="name: got 3", kind="spec")), 2),
        (ElastaneError("no cluster of ours can do that"), 2),
        (SpecError([Wrong("name", "name: got 3"), Wrong("env", "env: got 4")]), 2),
    ],
)
@pytest.mark.parametrize("verb", ONE_JOB)
def test_a_refusal_becomes_its_exit_code_and_clear_lines(
    run: Run, server: Fake, verb: str, refusal: ElastaneError, code: int
) -> None:
    server.refusal = refusal
    result = run(verb, "j1")
    assert result.exit_code == code
    assert result.stdout == ""
    assert str(refusal) in result.stderr
    assert "Traceback" not in result.stderr


def test_a_refusal_with_control_characters_cannot_steer_the_terminal(run: Run, server: Fake) -> None:
    server.refusal = ElastaneError("there is no job '\x1b[2J'")
    assert run("status", "j1").stderr == "error: there is no job '\\x1b[2J'\n"


def test_a_verb_without_its_job_is_the_users_mistake(run: Run) -> None:
    for verb in ("why", "eta", "logs", "cancel", "scale", "move", "drain"):
        assert run(verb).exit_code == 2


def test_the_shell_is_offered_jobs_and_nodes(server: Fake) -> None:
    assert completion.jobs("j") == [("j1", "digits"), ("j2", "big")]
    assert completion.jobs("j2") == [("j2", "big")]
    assert completion.nodes("n1") == [("n1", "draining")]
    assert [token for token, _ in completion.tokens("")] == [
        each.id for each in server.tokens() if not each.revoked
    ]
    offered = [name for name, _ in completion.policies("")]
    assert {"fifo", "elastane", "pollux"} <= set(offered)
    assert not {"srtf", "srsf", "elastane-oracle"} & set(offered)
    assert completion.shadows("of") == [("off", "no shadow any more")]


def test_completion_is_silent_without_a_server(server: Fake) -> None:
    server.refusal = ElastaneError("the server does not answer")
    assert completion.jobs("") == []


def test_nothing_heavy_is_imported_before_a_verb_runs() -> None:
    script = "import json, sys, elastane.cli.live; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    heavy = {"pydantic", "httpx", "rich", "numpy", "yaml", "fastapi", "torch", "plotly"}
    assert not heavy & set(json.loads(done.stdout))


def test_without_a_server_there_is_one_clear_line_and_a_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELASTANE_HOME", str(tmp_path))
    monkeypatch.delenv("ELASTANE_URL", raising=False)
    app = typer.Typer(rich_markup_mode=None)
    app.callback()(lambda: None)
    register(app)
    result = CliRunner().invoke(app, ["queue"])
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "elastane up" in result.stderr
