"""Has the store of a torchrun script listen on the job's own address only, where PyTorch would take all of them.

Rank 0 of a script opens a ``TCPStore`` in which all processes of the job meet; whoever reaches it can read and write.
PyTorch takes a socket that listens already (``master_listen_fd``), so it is given one that is bound to MASTER_ADDR.
The script is left as it is: PyTorch's rendezvous module gets another way to open a store, when it is imported.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import ipaddress
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

_MODULE, _STORE = "torch.distributed.rendezvous", "TCPStore"


def keep_store_at_home(environment: Mapping[str, str]) -> None:
    """From now on, stores opened by this process listen on MASTER_ADDR; nothing is done without one."""
    address = environment.get("MASTER_ADDR", "")
    if environment.get("RANK") != "0" or not _is_address(address):
        return
    present = sys.modules.get(_MODULE)
    if present is not None:
        _mend(present, address)
    else:
        sys.meta_path.insert(0, _Mender(address))


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


def _mend(module: ModuleType, address: str) -> None:
    made: Callable[..., Any] | None = getattr(module, _STORE, None)
    if made is not None:
        setattr(module, _STORE, _bound(made, address))


def _bound(make: Callable[..., Any], address: str) -> Callable[..., Any]:
    """Make a store as before but, as its master, on one address; where that cannot be had, PyTorch has its own way."""

    def store(*positional: Any, **named: Any) -> Any:
        ours = named.get("host_name") == address and named.get("is_master")
        if ours and not positional and "master_listen_fd" not in named:
            with contextlib.suppress(OSError):
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listening = socket.create_server((address, int(named["port"])), family=family)
                return make(**named, master_listen_fd=listening.detach())
        return make(*positional, **named)

    return store


class _Mender(importlib.abc.MetaPathFinder):
    """Waits for one module to be imported, and mends it as soon as it has run."""

    def __init__(self, address: str) -> None:
        self._address = address

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Of that module, the spec that others find, with a word added after its execution."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute, address = spec.loader.exec_module, self._address

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _mend(module, address)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
