"""Jobs that run as users of their own reach nothing of the service and nothing of each other (C1)."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from elastane.client.send_directory import send_directory
from elastane.engines.local.job_users import user_name
from elastane.engines.local.marked_processes import marked
from service.apart import PATIENCE_S, Apart, apart, until

WALKING = Path(__file__).parent / "scripts" / "walking.py"
WALK_S = PATIENCE_S
"""Time to walk, which is looked at: what was not reached was not tried."""
PRYING = Path(__file__).parent / "scripts" / "prying.py"
COUNTING = Path(__file__).parents[1] / "train" / "scripts" / "counting.py"


@pytest.fixture
def system() -> Iterator[Apart]:
    with apart() as place:
        yield place


def _copied(system: Apart, script: Path) -> str:
    target = system.work / script.name
    target.write_text(script.read_text())
    target.chmod(0o644)
    return str(target)


def _uid(pid: int) -> int:
    return os.stat(f"/proc/{pid}").st_uid  # noqa: PTH116


@pytest.mark.slow
def test_a_job_opens_nothing_of_the_service_or_of_another_tenant(system: Apart) -> None:
    assert "note: jobs run as" not in system.up("--jobs-as=tenant")
    ann, eve = system.user("ann", "vision"), system.user("eve", "nlp")
    secret = {"env": {"AWS_SECRET_ACCESS_KEY": "hunter2-of-ann"}}
    counting = [str(system.python), _copied(system, COUNTING), str(system.work / "counts"), "--pause=0.01"]
    training = system.submit(ann, counting, workers={"min": 1, "max": 1}, **secret)
    sleeping = system.submit(ann, ["sleep", "600"], **secret)
    checkpoints = system.home / "jobs" / training / "run" / "checkpoints"
    until(lambda: checkpoints.is_dir() and any(checkpoints.rglob("*")))
    until(lambda: ann.job(sleeping).processes)

    told = system.work / "paths.json"
    prying = system.submit(eve, [str(system.python), _copied(system, PRYING), str(told)])
    until(lambda: eve.job(prying).processes)
    mine = (system.home / "jobs" / prying / "run", system.home / "users" / user_name(system.tenant("nlp")))
    theirs = [path for path in system.home.rglob("*") if not any(path.is_relative_to(own) for own in mine)]
    assert {"token", "elastane.db", "agent.json", "launch.json", "w1.log"} <= {path.name for path in theirs}
    part = told.with_suffix(".part")
    part.write_text(json.dumps([str(path) for path in (system.home, *theirs)]))
    part.chmod(0o644)
    part.rename(told)
    until(lambda: eve.job(prying).state in ("succeeded", "failed"))
    answer = json.loads(system.log(eve, prying))

    assert answer["tried"] == len(theirs) + 1
    assert answer["processes"] > 5
    nothing = {key: answer[key] for key in ("files", "folders", "written", "parts", "signalled", "traced")}
    assert nothing == {key: [] for key in nothing}
    workers = [worker.pid for job in (training, sleeping) for worker in ann.job(job).processes]
    users = {_uid(pid) for pid in workers if pid}
    assert len(users) == 1
    assert users.isdisjoint({0, answer["user"]})
    assert system.run("logs", training).returncode == 0  # the service itself reads on


@pytest.mark.slow
def test_a_job_that_walks_the_whole_machine_opens_nothing_of_the_service_or_of_another_tenant(
    system: Apart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what must stay closed, three things are open and must be found: else the walk would see nothing."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter3-of-whoever-starts-it")
    since_s = time.time()
    system.up("--jobs-as=tenant")
    ann, eve = system.user("ann", "vision"), system.user("eve", "nlp")
    shared = Path("/dev/shm") / f"elastane-{system.tag}"
    closed = f"umask 077; echo $SECRET > $HOME/a; echo $SECRET > {shared}-closed"
    script = f"{closed}; umask 022; echo > {shared}-open; sleep 600"
    hers = system.submit(ann, ["sh", "-c", script], env={"SECRET": "hunter2-of-ann"})
    until(lambda: Path(f"{shared}-open").exists() and ann.job(hers).processes)
    leaked = system.work / "leaked"
    leaked.write_text("the token of a service: hunter3-of-whoever-starts-it")
    leaked.chmod(0o644)
    service = _processes_of_the_service(system)
    assert len(service) > 1
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"\0elastane-{system.tag}")
    listening.listen()
    told = system.work / "told.json"
    secrets = [
        (system.home / "token").read_text().strip(),
        "hunter2-of-ann",
        "hunter3-of-whoever-starts-it",
        *(_tokens(path) for path in system.home.rglob("*.json")),
    ]
    facts = {
        "home": str(system.home),
        "users": [pwd.getpwnam(user_name(system.tenant("vision"))).pw_uid],
        "inodes": sorted({*_open_files(service), (leaked.stat().st_dev, leaked.stat().st_ino)}),
        "sockets": sorted({*_sockets_of(service), f"@elastane-{system.tag}"}),
        "secrets": [secret for secret in secrets if secret],
        "since_s": since_s,
    }
    assert len(facts["inodes"]) > 1
    assert len(facts["secrets"]) > 4
    walking = system.submit(eve, [str(system.python), _copied(system, WALKING), str(told), f"{WALK_S:g}"])
    part = told.with_suffix(".part")
    part.write_text(json.dumps(facts))
    part.chmod(0o644)
    part.rename(told)
    try:
        until(lambda: eve.job(walking).state in ("succeeded", "failed"))
    finally:
        listening.close()
        for name in ("open", "closed"):
            Path(f"{shared}-{name}").unlink()
    answer = json.loads(system.log(eve, walking))
    assert answer["whole"]
    assert answer["seen"] > 1000
    assert answer["theirs"] == sorted([f"{shared}-open", str(leaked)])
    assert answer["telling"] == [str(leaked)]
    assert answer["sockets"] == [f"@elastane-{system.tag}"]
    assert answer["command_lines"] == []


def _processes_of_the_service(system: Apart) -> list[int]:
    """The control plane and what runs for it as the same user: agents, supervisors, spare processes."""
    up = int((system.home / "elastane.pid").read_text())
    return [up, *(pid for pid, _ in marked(system.home) if _uid(pid) == os.geteuid())]


def _open_files(pids: list[int]) -> set[tuple[int, int]]:
    """Regular files that processes have open, by device and inode."""
    found = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                facts = link.stat()
                if stat.S_ISREG(facts.st_mode):
                    found.add((facts.st_dev, facts.st_ino))
    return found


def _sockets_of(pids: list[int]) -> set[str]:
    """Names of sockets of this machine that processes have, in the file system or without one (``@name``)."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(link.readlink()))
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return {line[7] for line in lines if len(line) > 7 and f"socket:[{line[6]}]" in inodes}


def _tokens(path: Path) -> str:
    """The token in a file of the service's, if there is one."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return str(json.loads(path.read_text()).get("token", ""))
    return ""


@pytest.mark.slow
def test_a_directory_that_the_jobs_user_may_not_enter_is_named_and_its_own_is_there(system: Apart) -> None:
    system.up("--jobs-as=tenant")
    closed = system.folder / "closed"
    closed.mkdir(mode=0o700)
    ann, name = system.user("ann", "vision"), user_name(system.tenant("vision"))
    job = ann.submit({"command": ["true"]}, directory=str(closed)).id
    until(lambda: ann.job(job).state == "failed")
    reason = ann.job(job).reason
    assert f"user {name} may not enter the directory {closed}" in reason
    assert "\n" not in reason
    at_home = system.submit(ann, ["sh", "-c", 'echo "$USER" > "$HOME/name" && cat "$HOME/name"'])
    until(lambda: ann.job(at_home).state in ("succeeded", "failed"))
    assert system.log(ann, at_home) == f"{name}\n"


@pytest.mark.slow
def test_a_job_of_another_user_runs_from_a_package_and_sees_no_other(system: Apart) -> None:
    system.up("--jobs-as=tenant")
    ann, name = system.user("ann", "vision"), user_name(system.tenant("vision"))
    top = system.folder / "mine"
    top.mkdir(mode=0o700)
    (top / "go.sh").write_text("id -un; ls ..; touch here; echo done")
    code = send_directory(ann, top).code
    job = ann.submit({"command": "sh go.sh"}, directory=top, code=code).id
    until(lambda: ann.job(job).ended_s is not None)
    lines = system.log(ann, job).splitlines()
    assert (lines[0], lines[-1]) == (name, "done")
    assert code.digest not in " ".join(lines)
    assert sum("Permission denied" in line for line in lines) == 2


@pytest.mark.slow
def test_all_jobs_run_as_the_user_that_was_named_and_nothing_of_them_is_left(system: Apart) -> None:
    assert "all jobs run as nobody" in system.up("--jobs-as=nobody")
    admin = system.client()
    escaping = Path(__file__).parents[1] / "engines" / "local" / "scripts" / "escaping.py"
    folder = system.work / "pids"
    folder.mkdir()
    folder.chmod(0o777)
    job = system.submit(admin, [str(system.python), _copied(system, escaping), str(folder), "600"])
    until(lambda: sum(path.name.isdigit() for path in folder.iterdir()) == 3)
    pids = [int(path.read_text()) for path in folder.iterdir() if path.name.isdigit()]
    assert {_uid(pid) for pid in pids} == {65534}
    assert system.run("cancel", job).returncode == 0
    until(lambda: admin.job(job).state == "cancelled")
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    assert system.run("down").returncode == 0
    assert list(marked(system.home)) == []
