"""Parses what a person types into a trace.

pollux:N[,jobs=160][,hours=8][,realistic]     a workload by Pollux's procedure with seed N
optimus:N[,jobs=27][,hours=3.33]              parameter-server jobs of the kind Optimus ran, with seed N
philly:N, helios:N, itp:N[,gpus=64][,days=7]  a week of that kind with seed N that asks for as many GPUs as there are
synth:NAME[,jobs=COUNT][,days=DAYS][,seed=N]  a synthetic trace with NAME's statistics
PATH[,cluster=NAME][,steps_per_s=X][,time_unit_s=X]  a trace file of any known format, gzip or plain

Behind any of these what owners ask for may be drawn (``owner_mix``): guaranteed=F, opportunistic=F, adaptive=F,
resizable=F, rigid=F, command=F, tenants=N, priorities=N, weights=W, deadlines=F.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

from elastane import suggest
from elastane.errors import ElastaneError
from elastane.sim.workloads.extent import scaled_count
from elastane.sim.workloads.fits import fits
from elastane.sim.workloads.loader import load as load_file
from elastane.sim.workloads.names import nearest
from elastane.sim.workloads.optimus_like import optimus_like
from elastane.sim.workloads.owner_mix import CLASSES, KINDS, OwnerMix, mixed
from elastane.sim.workloads.owner_mix import KEYS as MIX_KEYS
from elastane.sim.workloads.pollux import pollux_like
from elastane.sim.workloads.streams import streams
from elastane.sim.workloads.synth import synthesise
from elastane.sim.workloads.trace import Trace
from elastane.sim.workloads.weeks import WEEKS, week_like

V = TypeVar("V")
D = TypeVar("D")
E = TypeVar("E", bound=Enum)

_GENERATORS = ("optimus", "pollux", "synth", *WEEKS)
_OPTIMUS_KEYS = ("hours", "jobs")
_POLLUX_KEYS = ("hours", "jobs", "realistic")
_SYNTH_KEYS = ("days", "jobs", "seed")
_WEEK_KEYS = ("days", "gpus")
_FILE_KEYS = ("cluster", "steps_per_s", "time_unit_s")


def parse_workload(
    text: str,
    *,
    seed: int = 0,
    load: float = 1.0,
    skip_bad: bool = False,
    format: str | None = None,
    keep_steps: bool = False,
) -> Trace:
    """The workload that ``text`` names (grammar in the module's docstring).

    ``load`` multiplies the intensity of arrivals.  Generators make that many more or fewer jobs in the same
    period; of a file's jobs a random part is kept, or all are repeated at their own submission times (see
    ``scaled``).  ``seed`` decides that choice and synthetic traces; workloads of Pollux's and
    Optimus's kind have their own seed, N.  ``keep_steps`` is for files that count steps (see ``load``).
    """
    if (found := _file_and_keys(text)) is not None:  # first, because real file names hold commas and colons
        return _file(text, *found, skip_bad, format, load, seed, keep_steps)
    kind, colon, rest = text.partition(":")
    if colon and kind in _GENERATORS and format is not None:
        raise ElastaneError(f"--format is for trace files; workload {text!r} is generated and has no format")
    if colon and kind == "pollux":
        return _pollux(text, rest, load)
    if colon and kind == "optimus":
        return _optimus(text, rest, load)
    if colon and kind == "synth":
        return _synth(text, rest, seed, load)
    if colon and kind in WEEKS:
        return _week(text, kind, rest, load)
    raise ElastaneError(f"no workload {text!r}: {_hint(kind if colon else text)}")


def scaled(trace: Trace, load: float, seed: int) -> Trace:
    """The trace at ``load`` times its intensity over the same period.

    Below one, a random choice of the jobs is kept, exactly round(load × jobs).  Above one, every job comes
    ⌊load⌋ times and a random choice once more; copies share the original's submission time, because the
    burst they stand for is the trace's own, and are told apart by ``~2``, ``~3`` behind the name.
    """
    wanted = scaled_count(len(trace.jobs), load)
    if wanted == len(trace.jobs):
        return trace
    (rng,) = streams(seed, 1)
    whole, extra = divmod(wanted, len(trace.jobs))
    more = set(rng.permutation(len(trace.jobs))[:extra].tolist())
    jobs = tuple(
        job if copy == 0 else replace(job, id=f"{job.id}~{copy + 1}")
        for place, job in enumerate(trace.jobs)
        for copy in range(whole + (place in more))
    )
    note = f"load {load:g}: {len(jobs)} jobs of {len(trace.jobs)}, chosen with seed {seed}"
    return replace(trace, jobs=jobs, notes=(*trace.notes, note))


def _file(
    text: str,
    path: str,
    items: list[str],
    skip_bad: bool,
    format: str | None,
    load: float,
    seed: int,
    keep_steps: bool,
) -> Trace:
    keys = _Keys(text, _split(items), _FILE_KEYS)
    trace = load_file(
        path,
        format,
        skip_bad,
        cluster=keys.get("cluster", str, None),
        steps_per_s=keys.get("steps_per_s", float, None),
        time_unit_s=keys.get("time_unit_s", float, None),
        keep_steps=keep_steps,
    )
    return mixed(scaled(trace, load, seed), keys.mix(), seed)


def _pollux(text: str, rest: str, load: float) -> Trace:
    number, *items = rest.split(",")
    keys = _Keys(text, _split(items), _POLLUX_KEYS)
    seed = _seed_of(text, "pollux", number)
    trace = pollux_like(
        seed,
        jobs=keys.get("jobs", int, 160),
        hours=keys.get("hours", int, 8),
        realistic=keys.get("realistic", _flag, False),
        load=load,
    )
    return mixed(trace, keys.mix(), seed)


def _optimus(text: str, rest: str, load: float) -> Trace:
    number, *items = rest.split(",")
    keys = _Keys(text, _split(items), _OPTIMUS_KEYS)
    hours = keys.get("hours", float, None)
    seed = _seed_of(text, "optimus", number)
    trace = optimus_like(seed, jobs=keys.get("jobs", int, 27), hours=hours, load=load)
    return mixed(trace, keys.mix(), seed)


def _synth(text: str, rest: str, seed: int, load: float) -> Trace:
    name, *items = rest.split(",")
    keys = _Keys(text, _split(items), _SYNTH_KEYS)
    jobs, days = keys.get("jobs", int, None), keys.get("days", float, None)
    own_seed = keys.get("seed", int, seed)
    return mixed(synthesise(name, jobs, days, own_seed, load), keys.mix(), own_seed)


def _week(text: str, name: str, rest: str, load: float) -> Trace:
    number, *items = rest.split(",")
    keys = _Keys(text, _split(items), _WEEK_KEYS)
    gpus, days = keys.get("gpus", int, 64), keys.get("days", float, 7.0)
    seed = _seed_of(text, name, number)
    return mixed(week_like(name, seed, gpus, days, load), keys.mix(), seed)


def _seed_of(text: str, name: str, number: str) -> int:
    if not number.isdecimal():
        raise ElastaneError(f"workload {text!r}: {name} needs a whole number as its seed, such as {name}:6")
    return int(number)


class _Keys:
    """The ``key=value`` parts of a workload, checked against the known keys."""

    def __init__(self, text: str, keys: Mapping[str, str], known: tuple[str, ...]) -> None:
        self.text, self.keys = text, keys
        for key in keys:
            if key not in (*known, *MIX_KEYS):
                raise ElastaneError(
                    f"workload {text!r}: unknown key {key!r}{nearest(key, (*known, *MIX_KEYS))}"
                )

    def get(self, key: str, convert: Callable[[str], V], otherwise: D) -> V | D:
        """The key's value, or ``otherwise`` where it is not given."""
        if key not in self.keys:
            return otherwise
        try:
            return convert(self.keys[key])
        except ValueError:
            value = self.keys[key]
            raise ElastaneError(f"workload {self.text!r}: {key}={value} is not a proper value") from None

    def mix(self) -> OwnerMix:
        """What owners ask for, as far as the keys say it."""
        classes, kinds = self._shares(CLASSES), self._shares(KINDS)
        tenants, priorities = self.get("tenants", int, None), self.get("priorities", int, None)
        weights, deadlines = self.get("weights", float, None), self.get("deadlines", float, None)
        try:
            return OwnerMix(classes, kinds, tenants, priorities, weights, deadlines)
        except ElastaneError as error:
            raise ElastaneError(f"workload {self.text!r}: {error}") from None

    def _shares(self, members: tuple[E, ...]) -> dict[E, float]:
        return {each: self.get(each.value, float, 0.0) for each in members if each.value in self.keys}


def _flag(text: str) -> bool:
    known = {"": True, "yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text.lower() not in known:
        raise ValueError(text)
    return known[text.lower()]


def _split(items: list[str]) -> dict[str, str]:
    return {key.strip(): value.strip() for key, _, value in (item.partition("=") for item in items)}


def _file_and_keys(text: str) -> tuple[str, list[str]] | None:
    """The longest beginning that is a path (``load`` explains directories), and the parts behind it."""
    parts = text.split(",")
    for end in range(len(parts), 0, -1):
        path = ",".join(parts[:end])
        if path and Path(path).exists():
            return path, parts[end:]
    return None


def _hint(name: str) -> str:
    forms = {
        "pollux": "pollux:N",
        "optimus": "optimus:N",
        "synth": "synth:NAME",
        **{week: f"{week}:N" for week in WEEKS},
        **{fit: f"synth:{fit}" for fit in fits()},
    }
    if close := suggest.nearest(name, forms):
        return f"there is no such file; did you mean {forms[close]}?"
    named = f"synth:NAME with NAME one of {', '.join(fits())}"
    weeks = ", ".join(f"{week}:N" for week in WEEKS)
    return f"there is no such file; built in are pollux:N, optimus:N, {weeks} and {named}"
