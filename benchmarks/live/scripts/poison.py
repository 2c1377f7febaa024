"""A hostile job: does one deed, says so, and stays.  ``poison.py DEED SCRATCH SECONDS [adaptive]``.

With ``adaptive`` it first becomes a worker of the training library, as far as that lets it.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from pathlib import Path

from benchmarks.live.scripts.poisons import folders, journals, ports, processes, records, substitutes
from benchmarks.live.scripts.poisons.place import DEEDS, Place

__all__ = ["folders", "journals", "ports", "processes", "records", "substitutes"]

name, scratch, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
if sys.argv[4:] == ["adaptive"]:
    import elastane.train as et

    et.init(seed=0)
run = Path(os.environ["ELASTANE_RUN"])
try:
    if run.name != "run":
        (scratch / "harm").write_text(f"it was given {run} as its own")
    elif name != "nothing":  # innocent, for comparison
        DEEDS[name](Place(run, scratch))
except OSError:  # not allowed to, or too late: that is what the service is for
    (scratch / "hindered").write_text(traceback.format_exc())
(scratch / "deed").touch()
until_s = time.monotonic() + seconds
while time.monotonic() < until_s:
    time.sleep(0.2)
