"""Devices that only PyTorch can tell of are asked for in a process that is thrown away: asking initialises them."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from elastane.accelerators.device import Accelerator

PATIENCE_S = 60.0
_MOST = 64
_ASK = """
import json, torch
kind = torch.accelerator.current_accelerator(check_available=True)
found = []
if kind is not None:
    module = torch.get_device_module(kind)
    for index in range(torch.accelerator.device_count()):
        free, total = torch.accelerator.get_memory_info(index)
        found.append([module.get_device_name(index), total])
print(json.dumps({"kind": kind.type if kind is not None else "", "devices": found}))
"""


def probe(
    maker: str, chosen: str | None, environment: Mapping[str, str], interpreter: str = sys.executable
) -> tuple[Accelerator, ...]:
    """Devices as ``interpreter``'s PyTorch sees them; ``chosen`` holds their numbers if somebody has chosen."""
    try:
        asked = subprocess.run(  # noqa: S603
            [interpreter, "-c", _ASK],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
        devices = json.loads(asked.stdout.splitlines()[-1])["devices"][:_MOST]
        described = [(str(name), round(int(total) / 2**30, 1)) for name, total in devices]
    except (OSError, subprocess.SubprocessError, ValueError, LookupError, TypeError):
        return ()
    numbers = (
        [part.strip() for part in chosen.split(",")] if chosen else [str(i) for i in range(len(described))]
    )
    return tuple(
        Accelerator(f"{maker}:{number}", name, memory_gb)
        for number, (name, memory_gb) in zip(numbers, described, strict=False)
    )


def torch_builds() -> Mapping[str, str]:
    """What the installed PyTorch was built with (``version``, ``cuda``, ``hip``, ``xpu``), without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    try:
        text = (Path(spec.origin).parent / "version.py").read_text(encoding="utf-8")
    except OSError:
        return {}
    found = dict(re.findall(r"^(__version__|cuda|hip|xpu)\b[^=\n]*= *'([^']*)'", text, re.MULTILINE))
    version = found.pop("__version__", "")
    return {"version": version, **found}
