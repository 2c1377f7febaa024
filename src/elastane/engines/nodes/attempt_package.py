"""Describes an attempt's package for a node, which fetches it and finds itself in its paths."""

from __future__ import annotations

from elastane.engines.contract import Attempt, Package
from elastane.engines.local.json_files import read_json
from elastane.engines.local.launch_file import launch_from_json
from elastane.engines.local.paths import LAUNCH, Layout
from elastane.engines.local.untrusted_files import UNREADABLE
from elastane.engines.nodes.log_parts import job_of
from elastane.engines.nodes.package_cache import Fetch, PackageCache
from elastane.engines.nodes.package_places import package, package_relocations
from elastane.engines.nodes.package_tree import PackageError
from elastane.train.coordinator.wire import Message


class AttemptPackage(Message, frozen=True, tag="package"):
    """The package of an attempt, and where its job runs on the head; sent before its fork server begins."""

    attempt: str
    digest: str
    directory: str
    subdirectory: str = ""
    top: str = ""


def package_of(layout: Layout, attempt: str) -> AttemptPackage | None:
    """What the launch of an attempt on this head says; None where its directory is shared, or nothing is launched."""
    job = job_of(attempt)
    if job is None:
        return None
    folder = layout.attempt(Attempt(job, int(attempt.rpartition(".")[2])))
    values = read_json(folder / LAUNCH)
    try:
        launch = launch_from_json(values)[0] if values is not None else None
    except (*UNREADABLE, PackageError):
        return None
    if launch is None or not isinstance(launch.code, Package):
        return None
    code = launch.code
    return AttemptPackage(attempt, code.digest, launch.directory, code.subdirectory, code.top)


async def have_package(cache: PackageCache, told: AttemptPackage, fetch: Fetch) -> tuple[tuple[str, str], ...]:
    """Have a node's copy, held by the attempt until it is released, and return the pairs of paths for its fork server.

    Raises:
        PackageError: it cannot be had; the attempt cannot run here.
    """
    code = package(told.digest, told.subdirectory, told.top)
    copy = await cache.copy(code.digest, fetch, told.attempt)
    return package_relocations(code, told.directory, copy)
