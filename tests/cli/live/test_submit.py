"""``elastane submit``: what is sent, what is refused before anything is sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.live.conftest import Run
from cli.live.fake import Fake, ended, queued, running
from elastane import __version__
from elastane.cli.live.progress import transfer
from elastane.service.messages import PackagedCode, ServerInfo, SharedCode
from elastane.service.same_machine import this_machine


def sent(server: Fake) -> dict[str, Any]:
    [(_, spec, _, _)] = [call for call in server.asked if call[0] == "submit"]
    return dict(spec)


def server_info(machine: str) -> ServerInfo:
    return ServerInfo(version="0", home="/h", started_s=0, policy="p", slots=1, nodes=1, machine=machine)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_command_is_enough(run: Run, server: Fake, here: Path) -> None:
    result = run("submit", "--", "python", "train.py", "--lr", "0.1", "--help")
    assert result.exit_code == 0
    assert result.stdout == "submitted j7 (train)\n"
    assert "elastane status j7" in result.stderr
    assert server.asked == [
        ("info",),
        ("submit", {"command": ["python", "train.py", "--lr", "0.1", "--help"]}, str(here), None),
    ]


def test_json_names_the_job(run: Run) -> None:
    result = run("submit", "--json", "--key", "again", "--", "true")
    assert json.loads(result.stdout) == {"id": "j7", "name": "train", "repeated": True}


def test_a_repeated_key_is_said(run: Run) -> None:
    assert run("submit", "--key", "again", "--", "true").stdout == "already submitted as j7 (train)\n"


def test_warnings_of_the_server_are_shown_apart_from_the_answer(run: Run, server: Fake) -> None:
    server.warnings = ["4 slots on 2 cores"]
    result = run("submit", "--json", "--", "true")
    assert result.stderr == "warning: 4 slots on 2 cores\n"
    assert json.loads(result.stdout)["id"] == "j7"


def test_every_flag_reaches_the_spec(run: Run, server: Fake) -> None:
    flags = (
        "--name n --workers 1:8 --kind adaptive --gpus 2 --batch 64 --epochs 3 --class opportunistic --priority 5"
        " --deadline 8h --tenant vision --env A=1 --env B=x=y --retries 2 --workdir /data"
    )
    assert run("submit", *flags.split(), "--", "python", "t.py").exit_code == 0
    assert sent(server) == {
        "command": ["python", "t.py"],
        "name": "n",
        "workers": {"min": 1, "max": 8},
        "kind": "adaptive",
        "resources": {"gpus": 2},
        "batch": {"size": 64},
        "epochs": 3,
        "class": "opportunistic",
        "priority": 5,
        "deadline": "8h",
        "tenant": "vision",
        "env": {"A": "1", "B": "x=y"},
        "retries": 2,
        "workdir": "/data",
    }


@pytest.mark.parametrize(
    ("written", "workers"), [("2", {"min": 2, "max": 2}), ("1:8", {"min": 1, "max": 8}), ("2:", {"min": 2})]
)
def test_workers_are_a_number_or_a_range(run: Run, server: Fake, written: str, workers: dict[str, int]) -> None:
    run("submit", "--workers", written, "--", "x")
    assert sent(server)["workers"] == workers


def test_flags_override_the_file_and_keep_the_rest_of_it(run: Run, server: Fake, here: Path) -> None:
    (here / "job.yaml").write_text(
        "command: python a.py\nname: a\nworkers: {min: 1, max: 4, resources: {gpus: 1, cpus: 2}}\n"
        "batch: {size: 32, max: 512}\nenv: {A: '1', B: '2'}\n"
    )
    flags = ("--name", "b", "--workers", "2:3", "--gpus", "4", "--batch", "64", "--env", "B=3")
    assert run("submit", "job.yaml", *flags).exit_code == 0
    assert sent(server) == {
        "command": "python a.py",
        "name": "b",
        "workers": {"min": 2, "max": 3, "resources": {"gpus": 4, "cpus": 2}},
        "batch": {"size": 64, "max": 512},
        "env": {"A": "1", "B": "3"},
    }


def test_a_command_completes_a_file_without_one(run: Run, server: Fake, here: Path) -> None:
    (here / "job.yaml").write_text("epochs: 3\n")
    assert run("submit", "job.yaml", "--", "python", "t.py").exit_code == 0
    assert sent(server) == {"epochs": 3, "command": ["python", "t.py"]}


def test_what_nothing_would_act_upon_never_leaves_the_machine(run: Run, server: Fake, here: Path) -> None:
    (here / "job.yaml").write_text("command: python a.py\nvalue: 100\nbatch: {size: 64, per_gpu_max: 32}\n")
    result = run("submit", "job.yaml")
    assert result.exit_code == 2
    assert [line.split(":")[1:3] for line in result.stderr.splitlines()[:2]] == [
        [" job.yaml", " value is not supported yet"],
        [
            " batch.per_gpu_max is not supported yet",
            " how many samples fit on an accelerator is found by trying",
        ],
    ]
    assert server.asked == []


def test_a_batch_script_is_understood(run: Run, server: Fake, here: Path) -> None:
    (here / "job.sh").write_text("#!/bin/bash\n#SBATCH -J net --ntasks=4 --time=1:00\npython t.py\n")
    result = run("submit", "job.sh", "--workers", "2")
    assert result.exit_code == 0
    assert sent(server) == {
        "command": ["/bin/bash", str(here / "job.sh")],
        "name": "net",
        "workers": {"min": 2, "max": 2},
    }
    assert "warning: --time is not used: run time is learned" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "nothing to submit; name a job spec"),
        (("--",), "nothing to submit"),
        (("python", "train.py"), "put -- in front of a command: elastane submit -- python train.py"),
        (("train.py",), "elastane submit -- python train.py"),
        (("absent.yaml",), "absent.yaml: cannot be read: no such file"),
        (("--workers", "many", "--", "x"), "--workers: got 'many'"),
        (("--workers", "4:2", "--", "x"), "workers: max (2) is below min (4)"),
        (("--workers", "0", "--", "x"), "workers.min: got 0; expected 1 or more"),
        (("--kind", "adaptiv", "--", "x"), "did you mean 'adaptive'?"),
        (("--class", "norml", "--", "x"), "did you mean 'normal'?"),
        (("--env", "PLAIN", "--", "x"), "--env: got 'PLAIN'; expected NAME=VALUE"),
        (("--deadline", "soon", "--", "x"), "deadline: got 'soon'"),
        (("--name", "../x", "--", "x"), "name: got '../x'"),
        (("--key", "", "--", "x"), "--key: got 0 characters"),
        (("--wokers", "2", "--", "x"), "--workers"),
        (("--epochs", "three", "--", "x"), "--epochs"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_sent(
    run: Run, server: Fake, here: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    result = run("submit", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""
    assert server.asked == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("command: x\nworker: 2\n", "bad.yaml: unknown field 'worker' in job spec; did you mean 'workers'?"),
        ("name: x\n", "bad.yaml: command is missing"),
        ("- a\n", "bad.yaml: job spec: got ['a']"),
        ("", "bad.yaml: job spec: got nothing"),
        ("a: [\n", "bad.yaml:2:1: not valid YAML"),
    ],
)
def test_a_wrong_file_names_field_reason_and_nearest_spelling(
    run: Run, server: Fake, here: Path, text: str, complaint: str
) -> None:
    (here / "bad.yaml").write_text(text)
    result = run("submit", "bad.yaml")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {complaint}")
    assert server.asked == []


@pytest.mark.parametrize(
    ("state", "code"), [("succeeded", 0), ("failed", 10), ("rejected", 10), ("cancelled", 11)]
)
def test_watch_tells_what_happens_and_ends_with_the_jobs_outcome(
    run: Run, server: Fake, state: str, code: int
) -> None:
    server.later["j7"] = [queued(), queued(), running(), ended(state)]
    result = run("submit", "--watch", "--", "x")
    assert result.exit_code == code
    assert result.stderr.splitlines() == [
        "j2 (big) queued: needs 8 slots, 4 are free",
        "j1 (digits) running with 4 workers",
        f"j3 (old) {state}: finished",
    ]


def test_whoever_stops_watching_is_told_that_the_job_goes_on(
    run: Run, server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("elastane.cli.live.times.pause", interrupt)
    server.later["j7"] = [running()]
    result = run("submit", "--watch", "--", "x")
    assert result.exit_code == 130
    assert "j7 goes on; end it with: elastane cancel j7" in result.stderr


def test_nothing_of_here_is_sent_to_a_service_elsewhere(run: Run, server: Fake) -> None:
    assert run("submit", "--", "python", "train.py").exit_code == 0
    assert sent(server) == {"command": ["python", "train.py"]}
    refused = run("submit", "--export", "PATH", "--", "python", "train.py")
    assert refused.exit_code == 2
    assert "another machine; use --env NAME=VALUE" in refused.stderr


def test_what_is_active_here_is_sent_to_a_service_that_sees_our_files(
    run: Run, server: Fake, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "info", lambda: server_info(machine=this_machine()))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("PYTHONPATH", "/code")
    monkeypatch.setenv("WANDB_API_KEY", "0123")
    result = run("submit", "--export", "ALL", "--", "python", "train.py")
    assert result.exit_code == 0, result.stderr
    spec = sent(server)
    assert spec["python"]["path"] == str(Path(sys.executable).parent / "python")
    assert spec["python"]["elastane"] == __version__
    assert spec["exported"]["PYTHONPATH"] == "/code"
    assert "0123" not in str(spec)
    assert "not exported, because they look like secrets: WANDB_API_KEY" in result.stderr


def test_a_batch_script_may_say_what_is_exported(
    run: Run, server: Fake, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "info", lambda: server_info(machine=this_machine()))
    monkeypatch.setenv("DATA", "/data")
    (here / "job.sh").write_text("#!/bin/bash\n#SBATCH --export=DATA,MORE=1\ntrue\n")
    result = run("submit", "job.sh")
    assert "not understood" not in result.stderr
    assert {"DATA": "/data", "MORE": "1"}.items() <= sent(server)["exported"].items()


def test_where_all_nodes_are_the_services_own_nothing_is_sent(run: Run, server: Fake, here: Path) -> None:
    assert run("submit", "--", "true").exit_code == 0
    assert server.codes == [None]
    assert not server.packages


def test_a_service_with_nodes_elsewhere_is_sent_the_directory_once(run: Run, server: Fake, here: Path) -> None:
    server.elsewhere = 1
    (here / "train.py").touch()
    (here / "sub").mkdir()
    run("submit", "--", "python", "train.py")
    run("submit", "--workdir", "sub", "--", "python", "../train.py")
    [digest] = server.packages
    assert server.codes == [
        PackagedCode(digest=digest, top=str(here)),
        PackagedCode(digest=digest, subdirectory="sub", top=str(here)),
    ]
    assert [call[0] for call in server.asked].count("send_package") == 1


def test_a_package_is_sent_where_it_is_asked_for(run: Run, server: Fake, here: Path) -> None:
    (here / "out").symlink_to("/etc")
    result = run("submit", "--package", "--", "true")
    assert len(server.packages) == 1
    assert "warning: left out of the package, for they lead out of the directory: links out" in result.stderr
    assert result.stdout == "submitted j7 (train)\n"


def test_a_shared_directory_is_never_sent(run: Run, server: Fake, here: Path) -> None:
    server.elsewhere = 1
    run("submit", "--shared", "--", "true")
    assert server.codes == [SharedCode()]
    assert not server.packages


def test_a_directory_is_sent_or_shared_and_not_both(run: Run, server: Fake) -> None:
    result = run("submit", "--shared", "--package", "--", "true")
    assert result.exit_code != 0
    assert server.asked == []


def test_a_bar_shows_what_is_worth_waiting_for(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    with transfer() as show:
        show("packing", 1, 10**9)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with transfer() as show:
        show("packing", 10, 10)
        show("sending", 5 * 10**8, 10**9)
    told = capsys.readouterr().err
    assert "sending" in told
    assert "packing" not in told
