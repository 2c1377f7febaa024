"""A start is short because little is imported before the service answers."""

from __future__ import annotations

import json
import subprocess
import sys

LATER = ("torch", "plotly", "scipy", "pandas", "yaml", "prometheus_client", "elastane.predict.eta")


def test_a_control_plane_imports_nothing_that_it_does_not_need_to_serve() -> None:
    code = f"import json, sys, elastane.service.daemon; print(json.dumps([m for m in {LATER} if m in sys.modules]))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == []
