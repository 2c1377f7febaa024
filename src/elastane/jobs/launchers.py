"""Reads the options of programs that start training scripts: torchrun and ``accelerate launch``.

Elastane starts the workers itself, so of these options only the number of workers and what a script would see of
them matter.  An option that is not listed here is not guessed at: the command then runs as it is written.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Launched:
    """The script behind a launcher, and what the launcher would have made of it.

    ``problem`` says what was not understood; nothing else holds then.
    """

    rest: tuple[str, ...] = ()
    """The script (or module) and its arguments."""
    module: bool = False
    workers: tuple[int, int] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Grammar:
    """Options of one launcher by what follows them; names are without dashes, words joined by ``-``."""

    name: str
    values: frozenset[str]
    flags: frozenset[str]
    used: frozenset[str]
    """Those of ``values`` and ``flags`` that are acted upon; the others are passed over."""
    short: Mapping[str, str]


TORCHRUN = _Grammar(
    "torchrun",
    values=frozenset(
        {
            *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "role"),
            *("max-restarts", "monitor-interval", "start-method", "log-dir", "redirects", "tee", "node-rank"),
            *("master-addr", "master-port", "local-addr", "local-ranks-filter", "logs-specs", "numa-binding"),
            *("event-log-handler", "signals-to-handle", "shutdown-timeout"),
        }
    ),
    flags=frozenset({"standalone", "module"}),
    used=frozenset({"nnodes", "nproc-per-node", "module"}),
    short={"-m": "module", "-r": "redirects", "-t": "tee"},
)
ACCELERATE = _Grammar(
    "accelerate launch",
    values=frozenset(
        {
            *("num-processes", "num-machines", "machine-rank", "main-process-ip", "main-process-port"),
            *("mixed-precision", "gradient-accumulation-steps", "num-cpu-threads-per-process"),
            *("rdzv-backend", "rdzv-conf", "max-restarts", "monitor-interval", "gpu-ids"),
        }
    ),
    flags=frozenset({"multi-gpu", "cpu", "same-network", "module"}),
    used=frozenset(
        {
            *("num-processes", "num-machines", "module", "cpu", "multi-gpu", "mixed-precision"),
            *("gradient-accumulation-steps", "num-cpu-threads-per-process"),
        }
    ),
    short={"-m": "module"},
)
_ACCELERATE_VARIABLES = {
    "mixed-precision": "ACCELERATE_MIXED_PRECISION",
    "gradient-accumulation-steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "num-cpu-threads-per-process": "OMP_NUM_THREADS",
    "cpu": "ACCELERATE_USE_CPU",
}
"""What ``accelerate launch`` tells a script, by the option that says it."""


def read_torchrun(words: Sequence[str]) -> Launched:
    """Read the options and the script behind ``torchrun``."""
    return _read(TORCHRUN, words, _torchrun_workers)


def read_accelerate(words: Sequence[str]) -> Launched:
    """Read the options and the script behind ``accelerate launch``."""
    return _read(ACCELERATE, words, _accelerate_workers)


class _NotUnderstood(Exception):
    """Something that this module does not know the meaning of."""


def _read(
    grammar: _Grammar, words: Sequence[str], workers: Callable[[Mapping[str, str]], tuple[int, int] | None]
) -> Launched:
    try:
        said, rest = _options(grammar, words)
        count = workers(said)
    except _NotUnderstood as error:
        return Launched(problem=f"{grammar.name}'s {error} is not understood")
    if not rest:
        return Launched(problem=f"{grammar.name} is given no script")
    told = {_ACCELERATE_VARIABLES[name]: value for name, value in said.items() if name in _ACCELERATE_VARIABLES}
    unused = tuple(f"--{name}" for name in said if name not in grammar.used)
    return Launched(rest, "module" in said, count, told, unused)


def _options(grammar: _Grammar, words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """(value by option, the words from the script on); a flag's value is ``true``."""
    said: dict[str, str] = {}
    left = deque(words)
    while left and left[0].startswith("-"):
        word = left.popleft()
        name, equals, value = _named(grammar, word)
        if name in grammar.flags and not equals:
            said[name] = "true"
        elif name in grammar.values and (equals or left):
            said[name] = value if equals else left.popleft()
        else:
            raise _NotUnderstood(word)
    return said, tuple(left)


def _named(grammar: _Grammar, word: str) -> tuple[str, str, str]:
    if word in grammar.short:
        return grammar.short[word], "", ""
    name, equals, value = word.partition("=")
    return (name[2:].replace("_", "-") if name.startswith("--") else ""), equals, value


def _torchrun_workers(said: Mapping[str, str]) -> tuple[int, int] | None:
    each = said.get("nproc-per-node")
    nodes = said.get("nnodes", "1")
    low, _, high = nodes.partition(":")
    if each is None or each in ("auto", "gpu", "cpu", "xpu"):
        if nodes in ("1", "1:1"):
            return None  # as many as there are places for: that is for Elastane to say
        raise _NotUnderstood(f"--nnodes {nodes} without a number in --nproc-per-node")
    per_node = _count("--nproc-per-node", each)
    few, many = _count("--nnodes", low) * per_node, _count("--nnodes", high or low) * per_node
    if few > many or many > _MOST:
        raise _NotUnderstood(f"--nnodes {nodes}")
    return few, many


def _accelerate_workers(said: Mapping[str, str]) -> tuple[int, int] | None:
    if said.get("num-machines", "1") != "1":
        raise _NotUnderstood(f"--num_machines {said['num-machines']}")
    if "num-processes" not in said:
        return None
    count = _count("--num_processes", said["num-processes"])
    return count, count


def _count(option: str, written: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", written, re.ASCII) or int(written) < 1:
        raise _NotUnderstood(f"{option} {written}")
    return int(written)
