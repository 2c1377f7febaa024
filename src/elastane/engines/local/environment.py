"""Filters the service's own environment: a job sees the variables named here, and no others.

Whoever starts the service may have keys, tokens and paths in its environment that are none of a job's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elastane.engines.local.cgroups import SWITCH
from elastane.jobs.secrecy import looks_secret

_NAMES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM"),
        *("LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHASHSEED", "PYTHONUNBUFFERED", "VIRTUAL_ENV"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "ELASTANE_DEVICES"),
    }
)
_FAMILIES = (
    *("LC_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "NUMEXPR_", "GOMP_"),
    *("CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "NCCL_", "GLOO_", "HIP_", "ROCR_", "TORCHINDUCTOR_", "PYTORCH_"),
)


def for_jobs(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that agents, fork servers and workers begin with."""
    return {name: value for name, value in environment.items() if _allowed(name)}


def for_service(environment: Mapping[str, str], home: Path) -> dict[str, str]:
    """The same for agents and supervisors, which are the service's own and are found by the home they name."""
    switch = {SWITCH: environment[SWITCH]} if SWITCH in environment else {}
    return {**for_jobs(environment), **switch, "ELASTANE_HOME": str(home)}


def _allowed(name: str) -> bool:
    return (name in _NAMES or name.startswith(_FAMILIES)) and not looks_secret(name)
