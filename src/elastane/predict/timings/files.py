"""Reads timing files: CSV (also gzipped) with a layer per row, in one of three layouts recognised by their columns.

=============  ======================================================================================================
layout         columns
=============  ======================================================================================================
convolution    batchsize, matsize, kernelsize, channels_in, channels_out, strides, padding (1 = same), use_bias,
               activation_fct (0..3), optimizer (0..6, 0 = forward only), time_ms
dense          batchsize, dim_input, dim_output, activation_fct, optimizer, time_ms
product        b, m, n, k, time_ms
=============  ======================================================================================================

The card is in a column ``device``, or the last part of the file's name (``dense_k40.csv.gz``).
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elastane.errors import ElastaneError
from elastane.predict.costs.contract import Timing
from elastane.predict.devices import Device, find
from elastane.predict.timings.published import LAYOUTS
from elastane.textfiles import UNREADABLE, is_packed, lines_of, open_text

_MOST_ROWS = 500_000
_LONGEST_S = 86_400.0
_ENDINGS = (".csv", ".csv.gz")


@dataclass(frozen=True)
class TimingSet:
    """Rows of one layout on one card.  ``group`` are the sets that can learn from each other: a file's name without
    its card.
    """

    group: str
    device: Device
    timings: Sequence[Timing]

    @property
    def name(self) -> str:
        """The name that tables show: group and device."""
        return f"{self.group} on {self.device.name}"


def load_timings(path: Path, devices: Sequence[Device] | None = None) -> tuple[TimingSet, ...]:
    """Reads all sets of a file, or of every CSV file of a folder; cards are looked up among ``devices``."""
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.name.endswith(_ENDINGS))
        if not found:
            raise ElastaneError(f"there is no .csv or .csv.gz file in {path}")
        return tuple(one for each in found for one in _sets(each, devices))
    return tuple(_sets(path, devices))


def rows_of(path: Path) -> list[dict[str, str]]:
    """Reads the plain rows of a CSV file."""
    with open_text(path) as file:
        try:
            if path.suffix == ".gz" and not is_packed(path):
                raise gzip.BadGzipFile("it is not gzip")
            return list(csv.DictReader(lines_of(file, path, _MOST_ROWS)))
        except (OSError, csv.Error, *UNREADABLE) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ElastaneError(f"the timing file {path} cannot be read: {why}") from error


def _sets(path: Path, devices: Sequence[Device] | None) -> Iterator[TimingSet]:
    rows = rows_of(path)
    columns = frozenset(name for name in rows[0] if name) if rows else frozenset()
    read = next((reader for needed, reader in LAYOUTS if needed <= columns), None)
    if read is None:
        raise ElastaneError(f"{path} has none of the known layouts of timings; see docs/prediction.md")
    stem = path.name.partition(".")[0]
    group, _, card = stem.rpartition("_")
    named = "device" in columns
    by_name: dict[str, list[Timing]] = defaultdict(list)
    known: dict[str, Device] = {}
    for line, row in enumerate(rows, start=2):
        asked = (row["device"] or "") if named else card
        try:
            device = known.get(asked) or known.setdefault(asked, find(asked, devices))
            timing = read(row, device)
            if not 0.0 < timing.seconds <= _LONGEST_S:
                raise ValueError(f"time_ms is {row['time_ms']!r:.40}, not a number above 0 and up to a day")
        except (TypeError, ValueError, LookupError, ArithmeticError, ElastaneError) as error:
            raise ElastaneError(f"{path}, line {line}: {error}") from error
        by_name[device.name].append(timing)
    for timings in by_name.values():
        yield TimingSet(stem if named else group or stem, timings[0].device, timings)
