"""Chooses which environment variables of the submitting user a job takes along.

By default those that say where programs and modules are found.  ``--export`` names more: ``NAME``, ``NAME=VALUE``,
``ALL`` (whatever is no secret and belongs to neither this terminal nor another scheduler) or ``NONE``.
What is taken along is stored with the job, so what looks like a secret never is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from elastane.errors import ElastaneError
from elastane.jobs.secrecy import looks_secret

ALL, NONE = "ALL", "NONE"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONGEST, _MOST = 32_768, 900
_USUAL = frozenset(
    {
        *(
            "PATH",
            "VIRTUAL_ENV",
            "CONDA_PREFIX",
            "CONDA_DEFAULT_ENV",
            "LD_LIBRARY_PATH",
            "CUDA_HOME",
            "LANG",
            "TZ",
        ),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONSAFEPATH"),
        *("PYTHONUTF8", "PYTHONWARNINGS", "PYTHONOPTIMIZE"),
        *("TORCH_HOME", "HF_HOME", "HF_DATASETS_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"),
        "TOKENIZERS_PARALLELISM",
    }
)
_USUAL_FAMILIES = ("LC_",)
_NOT_OURS = frozenset(
    {
        *(
            "HOME",
            "USER",
            "LOGNAME",
            "SHELL",
            "SHLVL",
            "PWD",
            "OLDPWD",
            "_",
            "TERM",
            "COLUMNS",
            "LINES",
            "MAIL",
        ),
        *("DISPLAY", "XAUTHORITY", "TMPDIR", "TMUX", "STY", "PS1", "RANK", "LOCAL_RANK", "WORLD_SIZE"),
        *("LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    }
)
_NOT_OUR_FAMILIES = (
    *(
        "ELASTANE_",
        "SSH_",
        "XDG_RUNTIME",
        "XDG_SESSION",
        "DBUS_",
        "SUDO_",
        "TERM_",
        "TMUX_",
        "GPG_",
        "BASH_FUNC",
    ),
    *("SLURM_", "PMI_", "OMPI_", "TORCHELASTIC_", "GROUP_", "ROLE_"),
)
"""What ``ALL`` leaves out: what belongs to a person, a terminal, a worker or another scheduler."""


@dataclass(frozen=True, slots=True)
class Export:
    """What ``--export`` asks for."""

    everything: bool = False
    nothing: bool = False
    names: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exported:
    """Variables to be taken along, and the names of secrets that were left out."""

    variables: Mapping[str, str]
    left_out: tuple[str, ...] = ()


def read_export(written: Iterable[str]) -> Export:
    """The meaning of all that was written behind ``--export``."""
    words = [word.strip() for text in written for word in text.split(",") if word.strip()]
    names = [word for word in words if "=" not in word and word not in (ALL, NONE)]
    values = dict(_setting(word) for word in words if "=" in word)
    for name in names:
        _named(name, name)
    if NONE in words and (ALL in words or names):
        raise ElastaneError("--export: NONE takes nothing along; leave it out, or the other names")
    return Export(ALL in words, NONE in words, tuple(names), values)


def exported(export: Export, environment: Mapping[str, str]) -> Exported:
    """What an environment holds of that; ``ElastaneError`` for a secret or a name that is not set."""
    named = {name: _present(name, environment) for name in export.names}
    for name, value in {**named, **export.values}.items():
        _refuse_secret(name, value)
    if export.nothing:
        return Exported(dict(export.values))
    fitting = {n: v for n, v in environment.items() if _NAME.fullmatch(n) and _storable(v)}
    usual = {n: v for n, v in fitting.items() if n in _USUAL or n.startswith(_USUAL_FAMILIES)}
    rest = {n: v for n, v in fitting.items() if not _is_apart(n)} if export.everything else {}
    secret = {n for n, v in {**rest, **usual}.items() if looks_secret(n, v)}
    kept = {n: v for n, v in sorted({**rest, **usual}.items())[:_MOST] if n not in secret}
    return Exported({**kept, **named, **export.values}, tuple(sorted(secret)))


def _setting(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    _named(name, word)
    return name, value


def _named(name: str, word: str) -> None:
    if not _NAME.fullmatch(name):
        raise ElastaneError(f"--export: got {word!r}; expected NAME, NAME=VALUE, ALL or NONE")


def _present(name: str, environment: Mapping[str, str]) -> str:
    if name not in environment:
        raise ElastaneError(f"--export: {name} is not set here; write --export {name}=VALUE, or leave it out")
    if not _storable(environment[name]):
        raise ElastaneError(f"--export: {name} is longer than {_LONGEST:,} characters, or no text; use a file")
    return environment[name]


def _refuse_secret(name: str, value: str) -> None:
    if looks_secret(name, value):
        raise ElastaneError(
            f"--export: {name} looks like a secret, and what is exported is stored with the job; put it into a file "
            f"that only the job's user can read, and export the file's path (--export {name}_FILE=/path)"
        )


def _storable(value: str) -> bool:
    """Whether it is text of a size that a spec takes; an environment may hold any bytes."""
    try:
        return len(value.encode()) <= _LONGEST and "\0" not in value
    except UnicodeEncodeError:
        return False


def _is_apart(name: str) -> bool:
    return name in _NOT_OURS or name.startswith(_NOT_OUR_FAMILIES)
