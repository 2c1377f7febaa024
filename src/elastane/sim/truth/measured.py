"""Replays ground truth from measured profiles, in the directory layout that AdaptDL's artifact uses.

One directory per application with ``placements.csv`` (every small placement), ``scalability.csv`` (larger, evenly
spread runs) and one ``validation-<batch>.csv`` per measured batch size (progress and iterations per epoch, with
gradient statistics).  Sia's artifact has the two tables of times once per accelerator type, as ``placements-TYPE.csv``
and ``scalability-TYPE.csv``.
"""

from __future__ import annotations

import csv
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

from elastane.errors import ElastaneError
from elastane.models.speed import FloatArray
from elastane.textfiles import UNREADABLE, lines_of, open_text

_MOST_ROWS = 500_000
_LARGEST = 1e12
_RANGES = {
    "step_time": (1e-9, 86_400.0),
    "local_bsz": (1.0, 1e9),
    "grad_sqr": (0.0, 1e24),  # squares of gradients that were scaled up for half precision
    "grad_var": (0.0, 1e24),
}
"""The range of a column, where that is not from 0 to ``_LARGEST``."""
_MAX_NODES = 16  # the largest cluster measured; beyond it the time of 16 nodes is used


@dataclass(frozen=True)
class Validation:
    """One training run at one batch size, a row per epoch."""

    progress: FloatArray
    iteration: FloatArray
    grad_sqr: FloatArray
    grad_var: FloatArray


def _read_columns(path: Path, names: tuple[str, ...]) -> dict[str, list[str | None]]:
    if not path.exists():
        raise ElastaneError(f"{path}: no such file; a profile directory needs it")
    try:
        with open_text(path) as file:
            reader = csv.DictReader(lines_of(file, path, _MOST_ROWS))
            missing = [name for name in names if name not in (reader.fieldnames or ())]
            if missing:
                raise ElastaneError(f"{path}: column {missing[0]!r} is missing")
            rows = list(reader)
    except (csv.Error, *UNREADABLE) as error:
        raise ElastaneError(f"{path} is not readable as a table: {error}") from None
    if not rows:
        raise ElastaneError(f"{path} has no rows; a profile directory needs them")
    return {name: [row[name] for row in rows] for name in names}


def _numbers(path: Path, column: str, texts: list[str | None]) -> FloatArray:
    return np.array([_number(path, line, column, text) for line, text in enumerate(texts, start=2)])


def _number(path: Path, line: int, column: str, text: str | None) -> float:
    """Reads one cell; a value outside the range of its column is an ``ElastaneError``."""
    try:
        number = float(text or "")
    except ValueError:
        raise ElastaneError(f"{path}, line {line}: {column} is {text!r:.80}, not a number") from None
    least, most = _RANGES.get(column, (0.0, _LARGEST))
    if not least <= number <= most:
        raise ElastaneError(f"{path}, line {line}: {column} is {number:g}, not from {least:g} to {most:g}")
    return number


def _shapes(path: Path, texts: list[str | None]) -> list[tuple[int, ...]]:
    """Reads placements, written as a digit per node: the workers on it."""
    for line, text in enumerate(texts, start=2):
        if not re.fullmatch("[1-9]{1,16}", text or "", re.ASCII):
            raise ElastaneError(f"{path}, line {line}: placement is {text!r:.80}, not a digit (1-9) per node")
    return [tuple(int(digit) for digit in text or "") for text in texts]


class MeasuredApp:
    """One application's measurements.  Answers are memoised: a simulation asks the same things again and again."""

    def __init__(self, directory: Path, per_gpu_max: int | None = None, gpu_type: str = "") -> None:
        self.name = directory.name
        self.directory = directory
        self._suffix = f"-{gpu_type}" if gpu_type else ""
        self._load_times()
        self._load_validation()
        self.initial = min(self.validation)
        self.maximum = max(self.validation)
        self.per_gpu_min = int(self._per_gpu.min())
        self.per_gpu_max = per_gpu_max or int(self._per_gpu.max())
        self.epochs = min(len(run.progress) for run in self.validation.values())
        self._times: dict[tuple[tuple[int, ...], int], tuple[float, float]] = {}
        self._noise: dict[tuple[int, int], float] = {}

    def _load_times(self) -> None:
        path = self.directory / f"placements{self._suffix}.csv"
        columns = _read_columns(path, ("placement", "local_bsz", "step_time", "sync_time"))
        self._per_gpu = _numbers(path, "local_bsz", columns["local_bsz"])
        times = np.stack([_numbers(path, name, columns[name]) for name in ("step_time", "sync_time")], axis=1)
        shapes = _shapes(path, columns["placement"])
        self._by_shape: dict[tuple[int, ...], tuple[FloatArray, FloatArray]] = {}
        for shape in dict.fromkeys(shapes):
            rows = [i for i, other in enumerate(shapes) if other == shape]
            order = np.array(rows)[np.argsort(self._per_gpu[rows])]
            self._by_shape[shape] = (self._per_gpu[order], times[order])
        self.gpus_per_node = max(max(shape) for shape in shapes)
        points = np.array([[len(shape), sum(shape)] for shape in shapes], dtype=np.float64)
        self._scattered = np.column_stack([points, self._per_gpu]), times

    @cached_property
    def _surface(self) -> tuple[LinearNDInterpolator, NearestNDInterpolator]:
        """Times over (nodes, workers, samples per GPU), equal placements averaged, larger runs appended."""
        path = self.directory / f"scalability{self._suffix}.csv"
        names = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
        columns = _read_columns(path, names)
        larger = np.stack([_numbers(path, name, columns[name]) for name in names], axis=1)
        points, times = self._scattered
        keys, inverse = np.unique(points, axis=0, return_inverse=True)
        sums = np.zeros((len(keys), 2))
        np.add.at(sums, inverse.ravel(), times)
        means = sums / np.bincount(inverse.ravel())[:, None]
        xs, ys = np.vstack([keys, larger[:, :3]]), np.vstack([means, larger[:, 3:]])
        return LinearNDInterpolator(xs, ys), NearestNDInterpolator(xs, ys)

    def _load_validation(self) -> None:
        self.validation: dict[int, Validation] = {}
        for path in self.directory.glob("validation-*.csv"):
            text = path.stem.split("-")[-1]
            if not text.isdigit():
                raise ElastaneError(f"{path}: the name must end in a batch size")
            names = ("progress", "iteration", "grad_sqr", "grad_var")
            columns = _read_columns(path, names)
            self.validation[int(text)] = Validation(*(_numbers(path, n, columns[n]) for n in names))
        if not self.validation:
            raise ElastaneError(f"{self.directory}: no validation-<batch>.csv")
        self.validation = dict(sorted(self.validation.items()))

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The placements that were measured."""
        return tuple(self._by_shape)

    def measured(self, shape: tuple[int, ...]) -> tuple[float, float]:
        """Returns ``step_time`` and ``sync_time`` of a measured placement with its fewest samples per GPU."""
        step_s, sync_s = self._by_shape[shape][1][0]
        return float(step_s), float(sync_s)

    def times_s(self, shape: tuple[int, ...], per_gpu: int) -> tuple[float, float]:
        """Returns seconds per synchronising pass, and the part of them spent on exposed synchronisation."""
        key = (shape, per_gpu)
        found = self._times.get(key)
        if found is None:
            found = self._times[key] = self._interpolate(shape, per_gpu)
        return found

    def _interpolate(self, shape: tuple[int, ...], per_gpu: int) -> tuple[float, float]:
        # A ring does not care where it starts, so placements are recorded as their smallest rotation.
        rotation = min(shape[i:] + shape[:i] for i in range(len(shape)))
        known = self._by_shape.get(rotation)
        if known is not None:
            sizes, times = known
            step_s, sync_s = (float(np.interp(per_gpu, sizes, times[:, i])) for i in (0, 1))
            return step_s, sync_s
        point = np.array([[min(len(shape), _MAX_NODES), sum(shape), per_gpu]], dtype=np.float64)
        linear, nearest = self._surface
        answer = linear(point)[0]
        if np.isnan(answer).any():  # outside what was measured
            answer = nearest(point)[0]
        return float(answer[0]), float(answer[1])

    @cached_property
    def boundaries(self) -> list[float]:
        """The work (samples at M0) at the end of each epoch: the least progress any batch size had made by then."""
        runs = self.validation.values()
        return [float(min(run.progress[e] for run in runs)) * self.initial for e in range(self.epochs)]

    def epoch_of(self, done: float) -> int:
        """Returns the number of the epoch a job is in after ``done`` work, from 0."""
        return min(bisect_right(self.boundaries, done), self.epochs - 1)

    def _neighbours(self, batch: int) -> tuple[int, int]:
        sizes = list(self.validation)
        lower = max((size for size in sizes if size <= batch), default=sizes[0])
        upper = min((size for size in sizes if size >= batch), default=sizes[-1])
        return lower, upper

    def _between(self, name: str, batch: int, epoch: int) -> float:
        lower, upper = self._neighbours(batch)
        low = float(getattr(self.validation[lower], name)[epoch])
        if lower == upper:
            return low
        high = float(getattr(self.validation[upper], name)[epoch])
        return low + (high - low) * (batch - lower) / (upper - lower)

    def iterations(self, batch: int, epoch: int) -> float:
        """Returns the optimizer steps made by the end of an epoch at that batch."""
        return self._between("iteration", batch, epoch)

    def recorded_noise(self, batch: int, epoch: int) -> float:
        """Returns φ as the published simulators take it: from the statistics recorded at the end of the epoch."""
        key = (batch, epoch)
        found = self._noise.get(key)
        if found is None:
            sqr, var = self._between("grad_sqr", batch, epoch), self._between("grad_var", batch, epoch)
            found = self._noise[key] = self.initial * var / sqr if sqr > 0 else float("inf")
        return found

    @cached_property
    def solved_noise(self) -> FloatArray:
        """φ per epoch, solved from the progress that iterations really made, pooled over batch sizes.

        One step at batch M gains (φ/M0 + 1)/(φ/M + 1).  The recorded statistics of early epochs are dominated by
        the start of training and would overstate the work of large batches by up to 59 %.
        """
        out = np.empty(self.epochs)
        for epoch in range(self.epochs):
            values = []
            for batch, run in self.validation.items():
                before = (run.progress[epoch - 1], run.iteration[epoch - 1]) if epoch else (0.0, 0.0)
                steps = run.iteration[epoch] - before[1]
                if batch > self.initial and steps > 0:
                    gain = (run.progress[epoch] - before[0]) / steps
                    gain = min(max(gain, 1.0 + 1e-6), batch / self.initial * (1.0 - 1e-6))
                    values.append((gain - 1.0) / (1.0 / self.initial - gain / batch))
            out[epoch] = float(np.median(values)) if values else np.inf
        return out
