"""Makes job specs, right ones and wrong ones, always near the truth: the structure is kept and parts are spoiled."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from elastane.jobs.yamlio import write_yaml

Values = dict[str, Any]

NASTY: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.0, -0.0, 1e-320, 1e308, -1e308,
    float("nan"), float("inf"), float("-inf"), "", " ", "0", "-1", "1e999", "NaN", "inf", "null", "~", "yes",
    "../", "../../etc/passwd", "/", "$(reboot)", "`id`", ";", "a; b", "a\nb", "a\rb", "a\0b", "\x1b[31m", "\u202eabc",
    "\ud800", "é", "日本", "😀" * 50, "x" * 101, "x" * 4096, "x" * 40_000, "%s%n", "{{x}}", "<script>", "'", '"', "\\",
    "10 parsecs", "5h", "3 GB", "-3 GB", "10 Gbps", "2030-01-31T18:00Z", "2030-01-31", "99999-01-01", "1:30", "0755",
    [], {}, [[]], [None], {"": ""}, {"min": 3, "max": 2}, {"a": {"b": {"c": {}}}}, ["x"] * 1000, {"x": 1, "y": [2]},
    b"bytes", (1, 2), 3 + 4j, object, {1: 2}, {None: None}, {(1, 2): 3},
)  # fmt: skip
"""What people and programs put into fields; the hand list of the reliability goals is among it."""

_NAMES = ("train", "net-1", "a.b", "A_9", "x")
_MAKERS: Mapping[str, Callable[[random.Random], object]] = {
    "command": lambda r: r.choice(["python train.py", ["python", "-m", "net", "--lr", "0.1"], "bash run.sh 'a b'"]),
    "name": lambda r: r.choice(_NAMES),
    "kind": lambda r: r.choice(["auto", "adaptive", "resizable", "rigid", "command"]),
    "workers": lambda r: r.choice([r.randint(1, 64), {"min": r.randint(1, 4)}, {"min": 2, "max": r.randint(2, 64)}]),
    "servers": lambda r: r.choice([r.randint(1, 4), {"min": 1, "synchronous": False, "resources": {"cpus": 2.5}}]),
    "resources": lambda r: {"gpus": r.randint(0, 8), "cpus": r.uniform(0, 64), "memory": f"{r.randint(1, 99)} GB"},
    "accelerators": lambda r: r.choice(["a100", ["a100", "h100"], []]),
    "batch": lambda r: r.choice([r.randint(1, 4096), {"size": 32, "max": r.randint(32, 4096), "per_gpu_max": 64}]),
    "epochs": lambda r: r.randint(1, 1000),
    "target": lambda r: {"metric": "accuracy", "value": r.uniform(0, 1), "direction": "at-most"},
    "checkpoint": lambda r: {"every": r.choice(["10 min", 30, "1h"]), "keep": r.randint(1, 9), "path": "ckpt"},
    "class": lambda r: r.choice(["guaranteed", "normal", "opportunistic"]),
    "priority": lambda r: r.randint(-1000, 1000),
    "weight": lambda r: r.uniform(0.1, 10),
    "preemptible": lambda r: r.random() < 0.5,
    "deadline": lambda r: r.choice(["8h", 3600, "2030-01-31T18:00Z", "2030-01-31T18:00:00.123456+05:30"]),
    "value": lambda r: r.choice([r.uniform(0, 99), {"shape": "step", "worth": 5, "until": "2h", "after": 1}]),
    "data": lambda r: {"zone": "eu", "gb": r.uniform(0, 1e4)},
    "tenant": lambda r: r.choice(_NAMES),
    "env": lambda r: {r.choice(["A", "PATH_X", "_b"]): r.choice(["1", "a b", 7, "ü"])},
    "retries": lambda r: r.randint(0, 10),
    "workdir": lambda r: r.choice(["sub", "/tmp/x", "."]),
}  # fmt: skip


def good(chance: random.Random) -> Values:
    """A spec that means something (it may still contradict itself)."""
    chosen = chance.sample(list(_MAKERS), chance.randint(0, 8))
    return {name: _MAKERS[name](chance) for name in dict.fromkeys(["command", *chosen])}


def spoiled(chance: random.Random) -> object:
    """The same with up to three parts spoiled."""
    values: Any = good(chance)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        values = _spoil(chance, values)
    return values


def _spoil(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.9:
        return _spoil_section(chance, value)
    if isinstance(value, list) and value and chance.random() < 0.7:
        spot = chance.randrange(len(value))
        return [_spoil(chance, part) if i == spot else part for i, part in enumerate(value)]
    return chance.choice(NASTY)


def _spoil_section(chance: random.Random, values: Mapping[Any, Any]) -> dict[Any, Any]:
    key = chance.choice(list(values))
    match chance.randrange(6):
        case 0:  # gone
            return {name: value for name, value in values.items() if name != key}
        case 1:  # misspelt
            wrong = str(key)[::-1] if chance.random() < 0.5 else f"{key}s"
            return {(wrong if name == key else name): value for name, value in values.items()}
        case 2:  # one too many
            return {**values, chance.choice(["x", "Command", "__class__", "model_config", "", 7, None]): 1}
        case _:
            return {**values, key: _spoil(chance, values[key])}


def written(chance: random.Random, values: object) -> str | None:
    """As a file would have it, sometimes torn; None for what no file can hold."""
    try:
        text = json.dumps(values) if chance.random() < 0.5 else write_yaml(values)
    except Exception:  # not JSON, not YAML: it cannot come from a file
        return None
    for _ in range(chance.choice([0, 0, 1, 2])):
        spot = chance.randrange(len(text) + 1)
        cut = spot + chance.randrange(4)
        text = (
            text[:spot]
            + chance.choice(["", "\n", "\t", ":", "{", "]", "&a", "*a", "!!python/name:os", "\0"])
            + text[cut:]
        )
    return text
