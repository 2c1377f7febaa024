"""The fixture ``fakegpu``, and how a test that asks for it comes to run in a process of its own."""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

from fakegpu import server
from fakegpu.lacking import without

_TESTS = Path(__file__).parent.parent


@pytest.fixture(params=["eager", "late", "thread"])
def fakegpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """``torch.fakegpu`` with two devices, under every policy of streams; nothing is initialised yet."""
    if server.INSIDE not in os.environ:
        without(_server().problem)
    from fakegpu.torch_device import install

    monkeypatch.setenv("FAKEGPU_COUNT", "2")
    module = install()
    module.policy(request.param, 300 if request.param == "thread" else 0)
    return module


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Have the test run elsewhere, and report what it reported."""
    if "fakegpu" not in getattr(item, "fixturenames", ()) or server.INSIDE in os.environ:
        return None
    if _server().problem:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _reports(item, _server().ask(item.nodeid)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    item.session._setupstate.teardown_exact(nextitem)  # of whoever ran here before
    return True


class _Server:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fakegpu.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=_TESTS.parent,
            env={**os.environ, "PYTHONPATH": str(_TESTS), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            text=True,
        )
        atexit.register(self._end)
        self.problem: str = self._hear()["problem"]
        """Why there is no pretend device here, or nothing."""

    def ask(self, test: str) -> dict[str, Any]:
        """What became of a test."""
        stdin: IO[str] = self._process.stdin  # type: ignore[assignment]
        stdin.write(f"{test}\n")
        stdin.flush()
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the process that tests of the pretend GPU are forked from ended: {self._process.wait()}"
            )
        return json.loads(line)  # type: ignore[no-any-return]

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()


@functools.cache
def _server() -> _Server:
    return _Server()


def _reports(item: pytest.Item, answer: dict[str, Any]) -> list[pytest.TestReport]:
    serialized = item.config.hook.pytest_report_from_serializable
    reports = [serialized(config=item.config, data=data) for data in answer["reports"]]
    if reports and answer["code"] == 0:
        return reports
    told = f"the test's process ended with {answer['code']}\n{answer['output'][-4000:]}"
    return [pytest.TestReport(item.nodeid, item.location, {}, "failed", told, "call")]
