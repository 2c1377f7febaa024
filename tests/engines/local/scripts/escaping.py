"""Leaves processes behind that share nothing with this one: neither parent, group, session, environment nor name."""

import os
import signal
import sys
import time
from pathlib import Path


def escape(place: Path, times: int) -> None:
    if os.fork():
        return
    os.setsid()
    for _ in range(times):
        if os.fork():
            os._exit(0)
    os.chdir("/")
    part = place.with_suffix(".part")
    part.write_text(str(os.getpid()))
    part.rename(place)
    os.execve("/bin/sleep", ["innocent", "86400"], {})


signal.signal(signal.SIGTERM, signal.SIG_IGN)
folder, seconds = Path(sys.argv[1]), float(sys.argv[2])
for times in (1, 2, 5):
    escape(folder / str(times), times)
while len([path for path in folder.iterdir() if path.name.isdigit()]) < 3:
    time.sleep(0.01)
print("escaped", flush=True)
time.sleep(seconds)
