"""A whole system on two hosts that share neither home nor code: submitted, trained over both, and one of them lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from elastane.testing.hosts import Box, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.hosts,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "-"),
]
PATIENCE_S = 120.0
LATEST_S = 5.0
"""Half a second is what is promised; a busy machine may take longer."""
SCRIPT = """
import sys, time
from pathlib import Path
import torch
from torch.utils.data import TensorDataset
import elastane.train as et
from helper import WORD

job = et.init(checkpoint_every=0.5)
model = job.model(torch.nn.Linear(1, 1))
opt = job.optimizer(torch.optim.SGD(model.parameters(), lr=0.01))
data = job.loader(TensorDataset(torch.arange(64.0)[:, None]), batch_size=8)
for epoch in job.epochs(100_000):
    for (x,) in data:
        model(x).mean().backward()
        opt.step()
        time.sleep(0.02)
        print(WORD, epoch, time.time(), flush=True)
    if job.evaluate(Path(sys.argv[1]).exists):
        break
"""


class System:
    """The head on the first host, a node on the second."""

    def __init__(self, box: Box, folder: Path) -> None:
        self.head, self.far = box.hosts
        self.folder, self.common = folder, folder / "common"
        self.project, self.home = folder / "project", folder / "home"
        for place in (self.project, self.common, self.home):
            place.mkdir()
        (self.project / "train.py").write_text(SCRIPT)
        (self.project / "helper.py").write_text("WORD = 'step'\n")
        self.environment = {**os.environ, "ELASTANE_HOME": str(self.home)}
        for place in (self.home, self.project):
            self.far.private(place)

    def start(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        return self.head.start(
            sys.executable,
            "-m",
            "elastane",
            *words,
            environment=self.environment,
            directory=self.project,
            **more,
        )

    def say(self, *words: str) -> str:
        done = self.start(*words, output=subprocess.PIPE)
        text = done.communicate(timeout=PATIENCE_S)[0].decode()
        assert done.returncode == 0, text
        return text

    def ask(self, *words: str) -> Any:
        return json.loads(self.say(*words, "--json"))

    def up(self, *words: str) -> None:
        address = f"--listen={self.head.address}:7077"
        self.say("up", "--detach", "--nodes=1", "--slots=1", "--interval=0.5", address, *words)
        join = self.say("node", "secret").strip().split("'")[1]
        self.far.start(
            *(sys.executable, "-m", "elastane", "node", join, "--name=far", f"--scratch={self.folder / 'far'}"),
            environment={**os.environ, "OMP_NUM_THREADS": "1"},
            output=(self.folder / "far.log").open("ab"),
        )
        self.until(lambda: "far" in self.nodes())

    def nodes(self) -> list[str]:
        return [node["id"] for node in self.ask("nodes") if node["state"] == "up"]

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, (self.folder / "far.log").read_text()
            time.sleep(0.2)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with Box(tmp_path, hosts=2) as box:
        yield System(box, tmp_path)


class Heard:
    """What ``logs -f`` prints, and how long after it was printed first."""

    def __init__(self, system: System, job: str, worker: str) -> None:
        self.late: list[float] = []
        self.lines: list[str] = []
        self._process = system.start("logs", "-f", job, "--worker", worker, output=subprocess.PIPE)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.decode())
            words = line.decode().split()
            if words[:1] == ["step"]:
                self.late.append(time.time() - float(words[2]))


def test_a_job_trains_over_two_hosts_that_share_nothing_and_survives_one_of_them(system: System) -> None:
    system.up(f"--checkpoints={system.common / 'saved'}")
    words = ("submit", "--workers=1:3", "--", sys.executable, "train.py", str(system.common / "enough"))
    job = submitted(system, *words)

    def workers() -> dict[str, str]:
        return {worker["name"]: worker["node"] for worker in system.ask("status", job)["processes"]}

    system.until(lambda: bool(workers()))
    system.say("scale", job, "3")
    system.until(lambda: sorted(workers().values()) == ["far", "far", "n0"])
    there = next(name for name, node in workers().items() if node == "far")
    heard = Heard(system, job, there)
    system.until(lambda: len(heard.late) > 200)
    late = sorted(heard.late[-100:])  # what came first had been printed long before
    print(f"a line is read {late[50]:.3f} s after it was printed (median), {late[-1]:.3f} s at most")
    assert late[50] < LATEST_S
    here = next(name for name, node in workers().items() if node != "far")
    system.far.kill()
    system.say("scale", job, "1")
    system.until(lambda: list(workers().values()) == ["n0"])
    survivor = Heard(system, job, here)
    system.until(lambda: len(survivor.late) > 20 and survivor.late[-1] < LATEST_S)
    system.common.joinpath("enough").touch()
    system.until(lambda: system.ask("status", job)["state"] == "succeeded")


def test_a_job_that_would_save_where_the_other_host_cannot_read_is_refused_in_one_sentence(
    system: System,
) -> None:
    system.up()
    done = system.start(
        "submit", "--", sys.executable, "train.py", str(system.common / "enough"), output=subprocess.PIPE
    )
    text = done.communicate(timeout=PATIENCE_S)[0].decode()
    assert done.returncode == 2
    assert f"far does not see {system.home / 'jobs'}; say where with 'elastane up --checkpoints URL'" in text


def submitted(system: System, *words: str) -> str:
    at = words.index("--")
    return str(json.loads(system.say(*words[:at], "--json", *words[at:]))["id"])
