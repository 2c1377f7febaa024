"""Runs a poison as it was found: ``as_found.py SCRIPT SCRATCH WHAT``.

It was written when all files of a job lay in one folder, so it is shown the service's records of the job under the
name of that folder, and its own names of folders are filled in.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import sys
from pathlib import Path

from benchmarks.live.scripts.poisons.place import Place

script, scratch, what = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
place = Place(Path(os.environ["ELASTANE_RUN"]), scratch)
if what not in ("", "logdir", "w9") or script.name == "forge.py":
    with contextlib.suppress(OSError):
        (place.records / "run").symlink_to(".")
        os.environ["ELASTANE_RUN"] = str(place.records / "run")
elif what:
    with contextlib.suppress(OSError):
        (place.run.parent / "attempt-1").mkdir()
text = script.read_text().replace("SCRATCH", str(scratch)).replace("FULL_DISK", str(scratch))
if script.name == "filler.py":
    text = text.replace("while True", "for _ in range(2000)")
sys.argv = [str(script), *([what, "240"] if what else ["shared"])]
if not script.name.startswith("surr"):
    (scratch / "deed").touch()  # it does not say when it is done
copy = scratch / script.name
copy.write_text(text)
runpy.run_path(str(copy), run_name="__main__")
