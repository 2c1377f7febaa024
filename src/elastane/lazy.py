"""Makes lazy packages, whose names are each imported from its module when it is first asked for (PEP 562).

Importing such a package is cheap: PyTorch or pydantic comes with the first name that needs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Make the ``__getattr__`` of a package; ``home`` says in which of its modules each name is defined."""

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home[name]}"), name)

    return get
