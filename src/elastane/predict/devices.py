"""Describes the devices to predict for: their peak figures, each with its source and date.

Peaks are dense (vendors print twice as much for sparse matrices) and per die (vendors print boards).  The speed that a
device reaches in practice is not here: that is learnt by ``costs``.
"""

from __future__ import annotations

import csv
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from elastane.codec import decoded
from elastane.errors import ElastaneError
from elastane.suggest import did_you_mean
from elastane.textfiles import lines_of, open_text, read_json

_MOST_ROWS = 10_000
_MOST = 1e6
"""Largest valid number of multiprocessors, megahertz, or figure of a link."""


@dataclass(frozen=True, slots=True)
class Link:
    """How devices reach each other: within a node, between nodes, and the time of one message."""

    intra_gb_per_s: float = 12.0
    inter_gb_per_s: float = 3.1
    latency_us: float = 10.0


@dataclass(frozen=True, slots=True)
class Device:
    """One kind of accelerator, or this machine's processor once it was calibrated."""

    name: str
    memory_gb: float
    bandwidth_gb_per_s: float
    peak_tflops: Mapping[str, float]
    launch_us: float
    source: str
    as_of: str
    arch: str = ""
    sms: int = 0
    clock_mhz: float = 0.0
    aliases: tuple[str, ...] = ()
    link: Link = field(default_factory=Link)

    def __post_init__(self) -> None:
        wrong = problem(self)
        if wrong:
            raise ElastaneError(f"device {self.name}: {wrong}")

    def peak(self, precision: str) -> float:
        """Returns FLOP/s at a precision; one that the device has no units for runs at the speed of fp32.

        Raises:
            ElastaneError: there is no such precision.
        """
        if precision not in PRECISIONS:
            hint = did_you_mean(precision, PRECISIONS)
            raise ElastaneError(
                f"precision {precision!r} is not known{hint}; choose of {', '.join(PRECISIONS)}"
            )
        return self.peak_tflops.get(precision, self.peak_tflops["fp32"]) * 1e12

    @property
    def bandwidth(self) -> float:
        """Memory bandwidth in bytes per second."""
        return self.bandwidth_gb_per_s * 1e9

    @property
    def accelerator(self) -> bool:
        """Whether it is an accelerator, on which operators are launched while the host runs ahead."""
        return self.sms > 0


PRECISIONS = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
"""Names of precisions with the bytes of an element."""

_PER_CLOCK = {
    "volta": 1024,
    "turing": 1024,
    "ampere": 2048,
    "ampere-consumer": 512,
    "ada": 1024,
    "ada-consumer": 512,
    "hopper": 4096,
}
"""Dense 16-bit operations per multiprocessor and clock."""


def problem(device: Device) -> str | None:
    """Says what is wrong with a row of the catalog, or returns None.  Finds peaks quoted for sparse matrices."""
    numbers = (device.memory_gb, device.bandwidth_gb_per_s, device.launch_us, *device.peak_tflops.values())
    if not all(map(math.isfinite, numbers)):
        return "every figure must be a finite number"
    links = (device.link.intra_gb_per_s, device.link.inter_gb_per_s, device.link.latency_us)
    if not all(0.0 <= each <= _MOST for each in (device.sms, device.clock_mhz, *links)):
        return f"sms, clock_mhz and link must be from 0 to {_MOST:,.0f}"
    if min(device.memory_gb, device.bandwidth_gb_per_s) <= 0 or device.launch_us < 0:
        return "memory_gb and bandwidth_gb_per_s must be above 0, launch_us not below"
    if "fp32" not in device.peak_tflops or min(device.peak_tflops.values()) <= 0:
        return "peak_tflops needs fp32, and every peak must be above 0"
    if not device.source or not device.as_of:
        return "source and as_of are missing: a figure without origin and date is not used"
    per_clock = _PER_CLOCK.get(device.arch)
    if per_clock and device.sms:
        possible = per_clock * device.sms * device.clock_mhz / 1e6
        for name in ("bf16", "fp16"):
            if device.peak_tflops.get(name, 0.0) > 1.1 * possible:
                return f"its {name} peak is above the dense {possible:.0f} TFLOP/s; was it quoted for sparsity?"
    return None


@cache
def catalog() -> tuple[Device, ...]:
    """Reads the catalog of devices that ships with the package."""
    text = files("elastane.predict").joinpath("data/devices.json").read_text(encoding="utf-8")
    return tuple(decoded(Device, row) for row in json.loads(text))


def find(name: str, devices: Iterable[Device] | None = None) -> Device:
    """Finds a device by name or alias, such as ``torch.cuda.get_device_name`` prints; case does not matter."""
    known = {
        alias.casefold(): device
        for device in (catalog() if devices is None else devices)
        for alias in (device.name, *device.aliases)
    }
    if name.casefold() not in known:
        names = sorted({device.name for device in known.values()})
        hint = did_you_mean(name, names)
        raise ElastaneError(f"there is no device {name!r} in the catalog{hint} (known: {', '.join(names)})")
    return known[name.casefold()]


def load_devices(path: Path) -> tuple[Device, ...]:
    """Reads devices from a user's own JSON list or CSV file.

    CSV has a column per field; peaks are ``peak_fp32``, ``peak_bf16`` … in TFLOP/s.
    """
    try:
        rows = _from_csv(path) if path.suffix == ".csv" else read_json(path)
        if not isinstance(rows, list):
            raise ValueError("it must hold a list of devices")
        if not rows:
            raise ValueError("it holds no device")
        return tuple(_device(number, row) for number, row in enumerate(rows, start=1))
    except (ValueError, EOFError, OSError, zlib.error, csv.Error, ElastaneError) as error:
        raise ElastaneError(f"the device file {path} is not usable: {error}") from error


def _device(number: int, row: object) -> Device:
    try:
        return decoded(Device, row)
    except ValueError as error:
        raise ValueError(f"its device number {number}: {error}") from None


def _from_csv(path: Path) -> list[dict[str, Any]]:
    with open_text(path) as file:
        rows = list(csv.DictReader(lines_of(file, path, _MOST_ROWS)))
    for line, row in enumerate(rows, start=2):
        if None in row:  # where DictReader puts what no column is for
            raise ValueError(f"line {line} has more cells than the first line has columns")
    return [_row(dict(row), line) for line, row in enumerate(rows, start=2)]


def _row(row: dict[str, str], line: int) -> dict[str, Any]:
    def number(key: str) -> float:
        try:
            return float(row[key])
        except ValueError:
            raise ValueError(f"line {line}, {key:.40}: {row[key]!r:.40} is not a number") from None

    peaks = {key.removeprefix("peak_"): number(key) for key in row if key.startswith("peak_") and row[key]}
    numbers = ("memory_gb", "bandwidth_gb_per_s", "launch_us", "sms", "clock_mhz")
    found: dict[str, Any] = {key: number(key) for key in numbers if row.get(key)}
    found |= {key: row[key] for key in ("name", "source", "as_of", "arch") if row.get(key)}
    return found | {
        "peak_tflops": peaks,
        "aliases": [each for each in (row.get("aliases") or "").split("|") if each],
    }
