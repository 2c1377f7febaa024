"""Looks at a control plane while others do things to it: whether it lives, how fast it answers, how big it is."""

from __future__ import annotations

import http.client
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

_EVERY_S = 0.05
_PATIENCE_S = 20.0


@dataclass(slots=True)
class Seen:
    """What one watch saw."""

    latencies_s: list[float] = field(default_factory=list)
    sizes_mb: list[float] = field(default_factory=list)
    unanswered: int = 0

    @property
    def p99_ms(self) -> float:
        """Of answers; one that never came took as long as we waited."""
        if len(self.latencies_s) < 2:
            return 0.0
        return quantiles(self.latencies_s, n=100, method="inclusive")[-1] * 1000.0

    @property
    def longest_ms(self) -> float:
        """The slowest answer."""
        return max(self.latencies_s, default=0.0) * 1000.0

    @property
    def grown_mb(self) -> float:
        """The largest size beyond the first."""
        return max(self.sizes_mb, default=0.0) - self.sizes_mb[0] if self.sizes_mb else 0.0


class Probe(threading.Thread):
    """Use as a context around what is done to the process ``pid`` that answers at ``url``."""

    def __init__(self, url: str, pid: int) -> None:
        super().__init__(daemon=True)
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        self._pid = pid
        self._over = threading.Event()
        self.seen = Seen()

    def __enter__(self) -> Probe:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(_PATIENCE_S + 5.0)

    def run(self) -> None:
        """Ask, again and again."""
        while not self._over.is_set():
            self.seen.sizes_mb.append(size_mb(self._pid))
            began_s = time.monotonic()
            if not self._answered():
                self.seen.unanswered += 1
            self.seen.latencies_s.append(time.monotonic() - began_s)
            self._over.wait(_EVERY_S)

    def _answered(self) -> bool:
        # A connection of its own each time: that is what a watchdog would do.
        line = http.client.HTTPConnection(self._host, self._port, timeout=_PATIENCE_S)
        try:
            line.request("GET", "/health")
            return line.getresponse().status in (200, 429)
        except OSError:
            return False
        finally:
            line.close()


def size_mb(pid: int) -> float:
    """Memory of a process that is resident."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
