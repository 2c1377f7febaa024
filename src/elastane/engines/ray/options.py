"""Holds which Ray cluster supplies machines, as ``elastane up`` is told, and makes the supplier from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elastane.engines.ray.pools import PoolSpec, parse_pool
from elastane.errors import ElastaneError

if TYPE_CHECKING:
    from elastane.engines.ray.machines import RayMachines

DEFAULT_LISTEN = "0.0.0.0:7077"
"""Where nodes join if nobody says: without an address of ours, machines that Ray has would be no use."""


@dataclass(frozen=True, slots=True)
class RayOptions:
    """A Ray cluster: ``address`` is that of its head, empty to start one here."""

    address: str = ""
    pools: tuple[str, ...] = ()
    """As they were said (``--pool``)."""
    insecure: bool = False

    def specs(self) -> list[PoolSpec]:
        """Returns the pools.

        Raises:
            ElastaneError: one makes no sense, or has the name of another.
        """
        specs = [parse_pool(text) for text in self.pools]
        names = [spec.name for spec in specs]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ElastaneError(f"--pool {twice[0]}: said twice")
        return specs

    def words(self) -> list[str]:
        """Returns the same options as words of a command line."""
        words = ["--engine=ray", *([f"--address={self.address}"] if self.address else [])]
        return [*words, *(f"--pool={text}" for text in self.pools)]


def ray_options(
    engine: str, address: str | None, pools: Sequence[str], *, insecure: bool, environment: Mapping[str, str]
) -> RayOptions | None:
    """Read what was said of the engine; None for this machine alone.

    Raises:
        ElastaneError: it does not go together, or Ray cannot be used here.
    """
    if engine not in ("local", "ray"):
        raise ElastaneError(f"--engine: must be 'local' or 'ray', not {engine!r}")
    if engine == "local":
        for option, said in (("--address", address), ("--pool", pools)):
            if said:
                raise ElastaneError(f"{option}: only means something with --engine ray")
        return None
    from elastane.engines.ray.machines import check_ray

    options = RayOptions(address or "", tuple(pools), insecure)
    options.specs()
    check_ray(insecure=insecure or not options.address, environment=environment)
    return options


def supplier(options: RayOptions, home: Path, cluster: str) -> RayMachines:
    """Make what supplies machines; ``cluster`` names ours among those that share one Ray cluster."""
    from elastane.engines.ray.head import start_head
    from elastane.engines.ray.machines import RayMachines
    from elastane.engines.ray.warden import Address

    address, environment = options.address, dict(os.environ)
    if not address:
        address, environment = start_head(home, environment)
    return RayMachines(home, Address(address, f"elastane-{cluster}"), options.specs(), environment)
