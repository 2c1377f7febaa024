"""The batch script for Slurm, tried with Slurm's daemons here: a node joins, works, and gives itself back."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "deploy" / "slurm" / "elastane-node.sbatch"
NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue")
PATIENCE_S = 120.0
IDLE_S = 15
GONE = (None, "lost")
"""How a node is listed that said goodbye: for a while as lost, then not at all."""


def why_not() -> str:
    """What is missing for a Slurm of our own; empty if nothing."""
    missing = [word for word in NEEDED if shutil.which(word) is None]
    if missing:
        return f"Slurm is not installed here ({missing[0]} is missing): apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "Slurm's daemons have to be started by root"


def free_port() -> int:
    with socket.create_server(("", 0)) as probe:
        return int(probe.getsockname()[1])


def wait(condition: Callable[[], Any], words: Callable[[], str]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, words()
        time.sleep(0.1)
    return found


class Slurm:
    """Controller and one node of Slurm, with an authentication service of their own, and a head of Elastane."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.host = folder, socket.gethostname().partition(".")[0]
        self.home = folder / "home"
        self.processes: list[subprocess.Popen[bytes]] = []
        for name in ("state", "spool", "run", "log", "tmp"):
            (folder / name).mkdir(mode=0o755)
        (folder / "slurm.conf").write_text(self.configuration())
        key = folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        command = folder / "elastane"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m elastane "$@"\n')
        command.chmod(0o755)
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "ELASTANE_HOME": str(self.home),
            "ELASTANE": str(command),
            "ELASTANE_JOIN_FILE": str(folder / "join"),
            "ELASTANE_IDLE_S": str(IDLE_S),
            "TMPDIR": str(folder / "tmp"),
        }

    def configuration(self) -> str:
        lines = {
            "ClusterName": "box",
            "SlurmctldHost": f"{self.host}(127.0.0.1)",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={self.folder / 'munge.socket'}",
            "SlurmUser": "root",
            "SlurmctldPort": free_port(),
            "SlurmdPort": free_port(),
            "StateSaveLocation": self.folder / "state",
            "SlurmdSpoolDir": self.folder / "spool",
            "SlurmctldPidFile": self.folder / "run" / "slurmctld.pid",
            "SlurmdPidFile": self.folder / "run" / "slurmd.pid",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "SelectType": "select/cons_tres",
            "ReturnToService": 2,
            "MpiDefault": "none",
            "JobAcctGatherType": "jobacct_gather/none",
            "NodeName": f"{self.host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN",
            "PartitionName": "all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())

    def start(self, *words: str) -> None:
        with (self.folder / "log" / words[0]).open("wb") as output:
            process = subprocess.Popen(
                words, env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.processes.append(process)

    def begin(self) -> None:
        files = {"socket": "munge.socket", "key-file": "munge.key", "pid-file": "run/munged.pid"}
        files |= {"log-file": "log/munged.log", "seed-file": "munge.seed"}
        paths = [f"--{name}={self.folder / path}" for name, path in files.items()]
        self.start("munged", "--force", "--foreground", *paths)
        wait((self.folder / "munge.socket").exists, self.logs)
        self.start("slurmctld", "-D")
        self.start("slurmd", "-D", "-N", self.host)
        wait(lambda: "idle" in self.say("sinfo", "-h", "-o", "%t", check=False), self.logs)

    def say(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr + self.logs()
        return done.stdout

    def elastane(self, *words: str) -> str:
        return self.say(self.environment["ELASTANE"], *words)

    def nodes(self) -> dict[str, str]:
        return {each["id"]: each["state"] for each in json.loads(self.elastane("nodes", "--json"))}

    def state(self, job: str) -> str:
        return str(json.loads(self.elastane("status", job, "--json"))["state"])

    def queue(self) -> str:
        return self.say("squeue", "-h", "-o", "%i %T")

    def logs(self) -> str:
        files = [*(self.folder / "log").iterdir(), *self.folder.glob("*.log")]
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-3000:]}" for path in files)

    def end(self) -> None:
        with contextlib.suppress(Exception):
            self.say("scancel", "--name=elastane-node", check=False)
            wait(lambda: not self.queue(), self.logs)
        if self.home.exists():
            self.say(self.environment["ELASTANE"], "down", check=False)
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(PATIENCE_S)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    system = Slurm(tmp_path)
    try:
        system.begin()
        yield system
    finally:
        system.end()


@pytest.mark.slow
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")
def test_a_node_of_slurm_joins_works_is_cancelled_politely_and_gives_itself_back(slurm: Slurm) -> None:
    slurm.elastane("up", "-d", "--slots=1", "--listen=127.0.0.1:0", "--jobs-as=me")
    join = Path(slurm.environment["ELASTANE_JOIN_FILE"])
    join.touch(mode=0o600)
    join.write_text(slurm.elastane("node", "secret"))
    # The head's own node takes nothing, so what runs does so on Slurm's.
    slurm.elastane("drain", "n0")
    code = slurm.folder / "code"
    code.mkdir()
    job = slurm.elastane("submit", "--json", f"--workdir={code}", "--kind=command", "--", "sleep", "1")
    name_of_job = json.loads(job)["id"]
    began_s = time.monotonic()
    first = slurm.say("sbatch", "--parsable", str(SCRIPT)).strip()
    name = f"{slurm.host}-{first}"
    wait(lambda: slurm.nodes().get(name) == "up", slurm.logs)
    told(f"from sbatch to a node that counts: {time.monotonic() - began_s:.1f} s")
    wait(lambda: slurm.state(name_of_job) == "succeeded", slurm.logs)
    # Nobody uses it any more: it ends, and Slurm has its machine back.
    idle_s = time.monotonic()
    wait(lambda: not slurm.queue(), slurm.logs)
    told(
        f"from the last job's end to the end of the allocation, idle time {IDLE_S} s: {time.monotonic() - idle_s:.1f} s"
    )
    assert slurm.nodes().get(name) in GONE
    # One that is cancelled while it is there says goodbye first.
    slurm.environment["ELASTANE_IDLE_S"] = "3600"
    second = slurm.say("sbatch", "--parsable", str(SCRIPT)).strip()
    name = f"{slurm.host}-{second}"
    wait(lambda: slurm.nodes().get(name) == "up", slurm.logs)
    # As shortly before its time is up, it says that it will leave.
    slurm.say("scancel", "--signal=USR1", second)
    wait(lambda: slurm.nodes().get(name) == "leaving", slurm.logs)
    gone_s = time.monotonic()
    slurm.say("scancel", second)
    wait(lambda: slurm.nodes().get(name) in GONE, slurm.logs)
    told(f"from scancel to a node that has gone: {time.monotonic() - gone_s:.1f} s")
    wait(lambda: not slurm.queue(), slurm.logs)


def told(words: str) -> None:
    """A figure for docs/cluster.md; pytest shows it with -s."""
    print(words)


def test_the_script_shows_nobody_the_join_string_and_says_what_the_command_takes() -> None:
    text = SCRIPT.read_text(encoding="utf-8")
    assert "elastane://" not in text
    assert "--join-file" in text
    assert subprocess.run(["bash", "-n", str(SCRIPT)], check=False).returncode == 0
