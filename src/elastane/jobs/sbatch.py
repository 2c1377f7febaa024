"""Reads a batch script with ``#SBATCH`` headers as a job spec.

A task of Slurm becomes a worker, and every worker runs the script with its own interpreter.  What has no meaning
here is said in a warning, never passed over; what would change the meaning of the job is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elastane.errors import ElastaneError
from elastane.jobs.problems import shown

_MARK = "#SBATCH"
_SHORT: Mapping[str, str] = {
    "J": "job-name",
    "N": "nodes",
    "n": "ntasks",
    "c": "cpus-per-task",
    "G": "gpus",
    "t": "time",
    "o": "output",
    "e": "error",
    "a": "array",
    "D": "chdir",
    "p": "partition",
    "A": "account",
    "q": "qos",
}
_READ = frozenset(
    {
        *("job-name", "nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "mem", "mem-per-cpu", "chdir"),
        *("gres", "gpus", "gpus-per-node", "gpus-per-task", "export"),
    }
)
_UNUSED: Mapping[str, str] = {
    "time": "run time is learned while the job trains",
    "output": "Elastane keeps the logs; read them with 'elastane logs'",
    "error": "Elastane keeps the logs; read them with 'elastane logs'",
}
_GIB = {"K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}


@dataclass(frozen=True, slots=True)
class Script:
    """What a batch script asks for: the values of a spec, and what the owner should know."""

    values: dict[str, Any]
    warnings: tuple[str, ...] = ()
    export: str = ""
    """Variables to take along, as Slurm writes them."""


@dataclass(frozen=True, slots=True)
class _Option:
    """One option of a header and the place it stands at."""

    name: str
    value: str
    where: str

    def wrong(self, expected: str) -> ElastaneError:
        return ElastaneError(f"{self.where}: --{self.name}: got {shown(self.value)}; expected {expected}")

    def count(self) -> int:
        if not re.fullmatch(r"[0-9]{1,6}", self.value) or int(self.value) < 1:
            raise self.wrong("a whole number from 1 up")
        return int(self.value)


def is_script(text: str) -> bool:
    """Tell whether a text is a script rather than a job spec in YAML."""
    return text.startswith("#!") or any(line.startswith(_MARK) for line in text.splitlines())


def read_script(text: str, path: str) -> Script:
    """The job that a batch script describes; ``path`` is where the script lies."""
    options = {option.name: option for option in _options(text, path)}
    if "array" in options:
        raise ElastaneError(
            f"{options['array'].where}: --array is not supported; submit the jobs one by one in a loop"
        )
    values: dict[str, Any] = {"command": [*_interpreter(text), path], **_plain(options)}
    tasks = _Tasks.of(options)
    if options.keys() & {"nodes", "ntasks", "ntasks-per-node"}:
        values["workers"] = {"min": tasks.low, "max": tasks.high}
    accelerators, resources = _resources(options, tasks)
    if resources:
        values["resources"] = resources
    if accelerators:
        values["accelerators"] = [accelerators]
    export = options["export"].value if "export" in options else ""
    return Script(values, tuple(_warnings(options, text)), export)


def _options(text: str, path: str) -> Iterator[_Option]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return  # like Slurm: headers end at the first command
        if line.startswith(_MARK):
            yield from _of_line(line.removeprefix(_MARK), f"{path}:{number}")


def _of_line(line: str, where: str) -> Iterator[_Option]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise ElastaneError(f"{where}: closed quotes are missing ({str(error).lower()})") from None
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, equals, value = _SHORT.get(word[1], word[1]), word[2:], word[2:]
        else:
            raise ElastaneError(f"{where}: got {shown(word)}; expected an option such as --nodes=2")
        if not equals and words and not words[0].startswith("-"):
            value = words.pop(0)
        yield _Option(name, value, where)


def _interpreter(text: str) -> list[str]:
    first = text.split("\n", 1)[0]
    return (first[2:].split() if first.startswith("#!") else []) or ["/bin/sh"]


def _plain(options: Mapping[str, _Option]) -> dict[str, Any]:
    """Translate the options that mean the same to Slurm and to us."""
    fields = {"job-name": "name", "chdir": "workdir"}
    return {field: options[name].value for name, field in fields.items() if name in options}


@dataclass(frozen=True, slots=True)
class _Tasks:
    """How many tasks in all, and on one node."""

    low: int
    high: int
    per_node: int

    @classmethod
    def of(cls, options: Mapping[str, _Option]) -> _Tasks:
        few, many = _nodes(options.get("nodes"))
        total, each = options.get("ntasks"), options.get("ntasks-per-node")
        if total is not None:
            count = total.count()
            return cls(count, count, each.count() if each else -(-count // few))
        per_node = each.count() if each else 1
        return cls(few * per_node, many * per_node, per_node)

    def share(self, option: _Option, amount: int, tasks: int) -> int:
        """Compute what one of ``tasks`` gets of an amount that they divide among them."""
        if amount % tasks:
            raise ElastaneError(
                f"{option.where}: --{option.name}: {tasks} tasks cannot divide {amount} GPUs evenly; "
                f"ask for a multiple of {tasks}, or for fewer tasks"
            )
        return amount // tasks


def _nodes(option: _Option | None) -> tuple[int, int]:
    if option is None:
        return 1, 1
    low, dash, high = option.value.partition("-")
    if not all(re.fullmatch(r"0*[1-9][0-9]{0,5}", part) for part in ((low, high) if dash else (low,))):
        raise option.wrong("a number of nodes such as 2 or 2-4")
    return int(low), int(high) if dash else int(low)


def _resources(options: Mapping[str, _Option], tasks: _Tasks) -> tuple[str, dict[str, Any]]:
    """Derive (accelerator type, needs of one worker) from the options."""
    kind, resources = "", dict[str, Any]()
    for name in ("gpus-per-task", "gpus-per-node", "gres", "gpus"):
        option = options.get(name)
        if option is None or (name == "gres" and not option.value.startswith("gpu")):
            continue
        kind, count = _gpus(option)
        sharers = {"gpus-per-task": 1, "gpus": tasks.low}.get(name, tasks.per_node)
        resources["gpus"] = tasks.share(option, count, sharers)
        break
    cpus = options.get("cpus-per-task")
    if cpus is not None:
        resources["cpus"] = float(cpus.count())
    if "mem" in options:
        resources["memory"] = _gigabytes(options["mem"]) / tasks.per_node
    elif "mem-per-cpu" in options:
        resources["memory"] = _gigabytes(options["mem-per-cpu"]) * resources.get("cpus", 1.0)
    return kind, {name: amount for name, amount in resources.items() if amount or name == "gpus"}


def _gpus(option: _Option) -> tuple[str, int]:
    """``4``, ``a100:4``, ``gpu:4``, ``gpu:a100:4`` or ``gpu:4:a100``."""
    parts = option.value.split(":")
    if option.name == "gres":
        parts = parts[1:] or ["1"]
    counts = [part for part in parts if re.fullmatch(r"[0-9]{1,6}", part)]
    kinds = [part for part in parts if part not in counts]
    if len(counts) > 1 or len(kinds) > 1 or not all(kinds):
        raise option.wrong("a number of GPUs such as gpu:4 or gpu:a100:4")
    return kinds[0] if kinds else "", int(counts[0]) if counts else 1


def _gigabytes(option: _Option) -> float:
    found = re.fullmatch(r"([0-9]{1,12})([KMGT]?)B?", option.value.upper())
    if found is None:
        raise option.wrong("a size such as 4000M or 16G")
    return int(found[1]) * _GIB[found[2] or "M"] / 1e9


def _warnings(options: Mapping[str, _Option], text: str) -> Iterator[str]:
    for reason in dict.fromkeys(_UNUSED.values()):
        named = [f"--{name}" for name in options if _UNUSED.get(name) == reason]
        if named:
            yield f"{' and '.join(named)} {'is' if len(named) == 1 else 'are'} not used: {reason}"
    unknown = [f"--{name}" for name in options if name not in _READ and name not in _UNUSED]
    if "gres" in options and not options["gres"].value.startswith("gpu"):
        unknown.append(f"--gres={options['gres'].value}")
    if unknown:
        yield f"not understood and left out: {', '.join(unknown)}"
    if re.search(r"^\s*srun\b", text, re.MULTILINE):
        yield "the script calls srun, which Elastane does not offer: every worker runs the script itself"
