"""A job under ``elastane train`` in processes of its own, asked and watched through its own protocol."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from benchmarks.harness import Stuck, sweep
from elastane.train.coordinator.control_file import control_of
from elastane.train.coordinator.login import connect
from elastane.train.coordinator.messages import TO_CLIENT, AskStatus, FromClient, Resize, ToClient
from elastane.train.errors import TrainError
from elastane.train.reports.event_file import load_run
from elastane.train.reports.events import Event

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
PATIENCE_S = 300.0
_LOOK_S = 0.05


def environment(**more: str) -> dict[str, str]:
    """For every process of a benchmark: one thread each, and the scripts find each other."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **threads, "PYTHONPATH": str(ROOT), "ELASTANE_JOBS_AS": "me", **more}


class LiveJob:
    """Use as a context: nothing that it started outlives it."""

    def __init__(
        self,
        script: str,
        run: Path,
        arguments: Sequence[str] = (),
        *,
        workers: int = 1,
        options: Sequence[str] = (),
        mode: str = "fixed",
    ) -> None:
        self.run = run
        command = [sys.executable, "-m", "elastane", "train", f"--run={run}", f"--workers={workers}"]
        self._command = [*command, f"--mode={mode}", *options, str(SCRIPTS / script), *arguments]
        self._log = run.with_suffix(".log")

    def __enter__(self) -> LiveJob:
        self.run.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=environment(ELASTANE_RUN=str(self.run)),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        while sweep(self.run):
            time.sleep(_LOOK_S)

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        return self._process.pid

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self._process.poll() is not None

    def ask(self, message: FromClient) -> ToClient:
        """Ask the job's coordinator."""
        control = control_of(self.run)
        connection = connect(str(control["host"]), int(control["port"]), "client", str(control["token"]))
        try:
            connection.send(message)
            answer = next(connection.messages(TO_CLIENT), None)
        finally:
            connection.close()
        if answer is None:
            raise Stuck(f"the job in {self.run} does not answer")
        return answer

    def status(self) -> Mapping[str, Any]:
        """Members, workers and step; no members while it cannot be asked."""
        with contextlib.suppress(TrainError, OSError, Stuck):
            answer: Mapping[str, Any] = to_builtins(self.ask(AskStatus()))
            return answer
        return {"members": [], "workers": {}, "step": 0, "generation": 0}

    def resize(self, workers: int) -> float:
        """Ask for so many workers; returns when that was."""
        asked_s = time.monotonic()
        self.ask(Resize(workers))
        return asked_s

    def until(self, condition: Callable[[Mapping[str, Any]], bool], what: str) -> Mapping[str, Any]:
        """Wait for a status; ends with an error when the job does, or when it takes minutes."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not condition(status := self.status()):
            if self.over or time.monotonic() > give_up_s:
                raise Stuck(f"{self.run}: {what} did not happen; {self.words()}")
            time.sleep(_LOOK_S)
        return status

    def result(self, out: Path) -> Any:
        """Wait for the file that the script writes once it knows what it wanted to know."""
        self.until(lambda _: out.exists(), f"a result in {out}")
        return json.loads(out.read_text())

    def settled(self, workers: int, steps: int) -> Mapping[str, Any]:
        """Wait until so many workers train and have made some steps."""
        status = self.until(lambda s: len(s["members"]) == workers, f"{workers} workers")
        first = int(status["step"])
        return self.until(lambda s: int(s["step"]) >= first + steps, f"{steps} steps of {workers} workers")

    def wait(self) -> int:
        """Until the job ends by itself; returns its exit code."""
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise Stuck(f"{self.run} does not end; {self.words()}") from None

    def words(self) -> str:
        """The last words of the supervisor and its workers."""
        logs = [self._log, *sorted(self.run.glob("logs/*.log"))]
        tails = [(log.name, log.read_text(errors="replace").splitlines()[-3:]) for log in logs if log.exists()]
        return "; ".join(f"{name}: {' / '.join(lines)}" for name, lines in tails if lines)

    def events(self) -> list[Event]:
        """What the library itself told so far."""
        return load_run(self.run)
