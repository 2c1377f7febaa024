"""A short job that writes down when it begins and when it ends, so that a run too many shows.

``once.py FOLDER LABEL SECONDS``; each line is one write at the end of the label's own file.
"""

from __future__ import annotations

import os
import sys
import time

folder, label, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
diary = os.open(os.path.join(folder, label), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)  # noqa: PTH118
os.write(diary, f"begin {os.environ['ELASTANE_JOB']} {os.getpid()}\n".encode())
time.sleep(seconds)
os.write(diary, f"end {os.environ['ELASTANE_JOB']} {os.getpid()}\n".encode())
