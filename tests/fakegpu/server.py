"""The process from which tests of the pretend GPU are forked: it has loaded everything and initialised nothing.

It reads the name of a test from each line of its standard input and answers with one line of JSON: the reports of that
test, and how its process ended.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from fakegpu import build
from fakegpu.torch_device import install

INSIDE = "FAKEGPU_INSIDE"
"""Set in the process of a test."""
PATIENCE_S = 120


class _Reports:
    """Collects what the one test of this process reports."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._hook: Any = None

    def pytest_configure(self, config: pytest.Config) -> None:
        self._hook = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.all.append(self._hook.hook.pytest_report_to_serializable(config=self._hook, report=report))


def _run(test: str, answer: Path, output: Path) -> None:
    os.setpgid(0, 0)
    os.environ[INSIDE] = "1"
    fd = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(fd, 1)
    os.dup2(fd, 2)
    signal.alarm(PATIENCE_S)
    reports = _Reports()
    pytest.main(
        ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning", test],
        plugins=[reports],
    )
    answer.write_text(json.dumps(reports.all), encoding="utf-8")
    os._exit(0)  # threads of streams may still be at work


def _in_child(test: str, folder: Path) -> dict[str, Any]:
    answer, output = folder / "answer", folder / "output"
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        try:
            _run(test, answer, output)
        finally:
            os._exit(70)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # whoever it forked
    reports = json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else []
    return {"reports": reports, "code": code, "output": output.read_text(encoding="utf-8", errors="replace")}


def _import_what_tests_import() -> None:
    """Once instead of in every process: plugins of pytest, PyTorch's lazy parts, the training library."""
    for plugin in entry_points(group="pytest11"):
        plugin.load()
    for name in ("hypothesis.internal.conjecture.providers", "torch._dynamo", "elastane.train.script.job"):
        importlib.import_module(name)
    gc.freeze()  # else every test's process looks through all of it again


def main() -> None:
    """Serve until standard input ends."""
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        install()
        _import_what_tests_import()
    except build.CannotBuild as reason:
        print(json.dumps({"problem": str(reason)}), file=channel)
        return
    print(json.dumps({"problem": ""}), file=channel)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(_in_child(line.strip(), Path(folder))), file=channel)


if __name__ == "__main__":
    main()
