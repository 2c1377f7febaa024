"""What a pilot starts: without Ray, which need not be installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from elastane.engines.ray import pilot
from elastane.engines.ray.pilot import Pilot

JOIN = "elastane://10.0.0.1:7077/" + "5" * 64 + "?sha256=" + "a" * 64
READS = """
import sys
from pathlib import Path
from elastane.engines.nodes.joining import read_join
[file] = [word.partition("=")[2] for word in sys.argv if word.startswith("--join-file=")]
Path(sys.argv[1]).write_text(str(read_join(Path(file))))
"""


def test_the_join_string_is_in_no_command_line_and_reaches_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun = subprocess.Popen, list[tuple[list[str], subprocess.Popen[bytes]]]()
    read = tmp_path / "read"

    def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = real([sys.executable, "-c", READS, str(read), *command[3:]], **options)
        begun.append((command, process))
        return process

    monkeypatch.setattr(pilot.subprocess, "Popen", start)
    monkeypatch.setattr(Pilot, "_end_with_it", lambda _: None)
    Pilot([JOIN, "--once", "--pool=spot"], "far")
    [(command, process)] = begun
    assert process.wait(60) == 0
    assert read.read_text() == JOIN
    assert JOIN not in " ".join(command)
    assert command[1:3] == ["-m", "elastane.engines.ray.leashed"]
    assert {"--once", "--pool=spot", "--name=far"} < set(command)
