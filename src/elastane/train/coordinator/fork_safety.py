"""Says why a process must not fork workers: it has touched a device, or it has other threads.

A driver does not survive a fork, and of several threads a fork copies only one, while locks that the others hold stay
locked.  Asking initialises nothing and imports nothing.

Not every open file of NVIDIA's driver means that CUDA was initialised.  Its management library opens
``/dev/nvidiactl`` and ``/dev/nvidia0``, too, and PyTorch asks that library, for good, where it is told to look for
devices without initialising any (PYTORCH_NVML_BASED_CUDA_CHECK, which promises that forks are not poisoned).  Only CUDA
opens ``/dev/nvidia-uvm``: its unified memory, without which ``cuInit`` fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DEVICE_FILES = ("/dev/nvidia-uvm", "/dev/kfd", "/dev/dri")
_PROCESS = Path("/proc/self")


def what_forbids_forking() -> str:
    """What this process has done, in a few words ("has initialised cuda"); nothing if it may fork."""
    initialised = _initialised(sys.modules.get("torch"))
    if initialised:
        return f"has initialised {initialised}"
    opened = _device_file(_open_files())
    if opened:
        return f"has opened {opened}"
    threads = _threads()
    return f"has started threads ({threads - 1})" if threads > 1 else ""


def _initialised(torch: Any) -> str:
    """The kind of device that PyTorch has initialised here."""
    if torch is None:
        return ""
    kind = torch.accelerator.current_accelerator()  # the kind that it was built for, be there one or not
    module = torch.get_device_module(kind) if kind is not None else None
    return str(kind.type) if module is not None and module.is_initialized() else ""


def _device_file(opened: Iterable[str]) -> str:
    return next((path for path in opened if path.startswith(_DEVICE_FILES)), "")


def _open_files() -> list[str]:
    found = []
    for link in (_PROCESS / "fd").iterdir() if (_PROCESS / "fd").is_dir() else ():
        try:
            found.append(os.readlink(link))  # noqa: PTH115
        except OSError:  # the folder's own
            continue
    return found


def _threads() -> int:
    tasks = _PROCESS / "task"
    return len(list(tasks.iterdir())) if tasks.is_dir() else 1
