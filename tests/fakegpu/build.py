"""Compiles the extension and the pretend NVML: once for each machine, version of PyTorch and state of the sources.

Seventeen seconds of one core on the machine this was written on.  A lock keeps two processes from building it twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent
SOURCES = ("fakegpu.cpp", "memory.h", "streams.h")
EXTENSION = "_fakegpu"


class CannotBuild(Exception):
    """The reason why there is no pretend device here."""


def extension() -> Path:
    """The built extension."""
    import torch

    headers = Path(sysconfig.get_paths()["include"])
    if not (headers / "Python.h").exists():
        raise CannotBuild(f"no headers of Python in {headers}")
    home = Path(torch.__file__).parent
    folders = [home / "include", home / "include/torch/csrc/api/include", headers]
    command = [
        *(
            _compiler("g++"),
            "-O0",
            "-fPIC",
            "-shared",
            "-std=c++20",
            "-w",
            f"-DTORCH_EXTENSION_NAME={EXTENSION}",
        ),
        *(f"-I{folder}" for folder in folders),
        str(HERE / "fakegpu.cpp"),
        *(
            f"-L{home / 'lib'}",
            "-ltorch_python",
            "-ltorch",
            "-ltorch_cpu",
            "-lc10",
            f"-Wl,-rpath,{home / 'lib'}",
        ),
    ]
    return _built(f"{EXTENSION}.so", command, SOURCES, f"{torch.__version__} {torch.__file__} {sys.version}")


def nvml() -> Path:
    """The folder that holds the pretend ``libnvidia-ml.so.1``."""
    command = [_compiler("gcc"), "-O0", "-fPIC", "-shared", "-w", str(HERE / "nvml.c")]
    return _built("libnvidia-ml.so.1", command, ["nvml.c"], "").parent


def load() -> ModuleType:
    """Import the extension; it stays in the process for good."""
    if EXTENSION not in sys.modules:
        spec = importlib.util.spec_from_file_location(EXTENSION, extension())
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[EXTENSION] = module
        spec.loader.exec_module(module)
    return sys.modules[EXTENSION]


def _compiler(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotBuild(f"no {name} here")
    return found


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "elastane-tests"


def _built(name: str, command: Sequence[str], sources: Sequence[str], built_for: str) -> Path:
    parts = [*command, built_for, *((HERE / source).read_text(encoding="utf-8") for source in sources)]
    folder = _cache() / hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    target = folder / name
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder / "lock"):
            if not target.exists():
                _compile([*command, "-o", str(folder / f"{name}.new")])
                (folder / f"{name}.new").rename(target)
    return target


def _compile(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the pretend device does not compile:\n{done.stderr[:4000]}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
