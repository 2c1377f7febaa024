"""``Objects`` are small named blobs in one place: a folder of this or another machine, or a prefix in an object store.

What ``UrlCheckpointStore`` asks of a place is little: whoever reads a name finds all that was put there or nothing, and
what was put is in the list sooner or later.  No rename, no lock, no order.  What lies there may be anybody's: a folder
is read without following links, and nothing is read beyond the size that was asked for.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import stat
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from elastane.errors import ElastaneError
from elastane.kit.atomic_files import sync
from elastane.kit.storage_urls import VARIABLE, checked, local_path, masked
from elastane.train.errors import TrainError

MOST_NAMES = 100_000
"""In one place; what else lies there is not looked at."""
PAUSES_S = (1.0, 4.0, 16.0)
"""Before a request to a service is made again."""
PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
_WRITING = ".writing-"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

Answer = TypeVar("Answer")


class StoreAway(OSError):
    """A service that did not answer although it was asked several times."""


class Objects(Protocol):
    """Named blobs in one place.  Trouble with the place is an ``OSError`` that names no secrets."""

    where: str
    """The place, as it may be shown."""

    def sizes(self) -> dict[str, int]:
        """The bytes of everything there, by name; nothing if the place does not exist."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write it, whole or not at all, over what has the name; it outlives this machine where the place does."""
        ...

    def put_part(self, name: str, data: bytes) -> None:
        """Write what is of no use before a ``put`` that names it: after a crash there may be a piece of it."""
        ...

    def get(self, name: str, most: int) -> bytes:
        """All of it.

        Raises:
            FileNotFoundError: there is none.
            ValueError: it has more than ``most`` bytes, or is no plain file.
        """
        ...

    def remove(self, name: str) -> None:
        """Take it away, if it is there."""
        ...


def open_objects(place: str) -> Objects:
    """What lies at a path or URL.

    Raises:
        TrainError: it is no such place, or a package for it is missing.
    """
    if place.startswith("memory://"):  # for trying things out: it ends with the process
        return StoreObjects(place)
    try:
        folder = local_path(checked(place, VARIABLE))
    except ElastaneError as error:
        raise TrainError(str(error)) from None
    return FolderObjects(folder) if folder is not None else StoreObjects(place)


class FolderObjects:
    """Files directly in one folder, on a disk or a network file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = str(folder)

    def sizes(self) -> dict[str, int]:
        """Of regular files; links are none."""
        found: dict[str, int] = {}
        try:
            with os.scandir(self.folder) as entries:
                for number, entry in enumerate(entries):
                    if number == MOST_NAMES:
                        break
                    if entry.name.startswith("."):
                        continue
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # removed meanwhile
                        continue
                    if stat.S_ISREG(facts.st_mode):
                        found[entry.name] = facts.st_size
        except FileNotFoundError:
            return {}
        return found

    def put(self, name: str, data: bytes) -> None:
        """Written under another name and forced to disk, then renamed."""
        other = f"{_WRITING}{uuid.uuid4().hex}"
        self.put_part(other, data)
        try:
            (self.folder / other).rename(self.folder / name)
        except BaseException:
            (self.folder / other).unlink(missing_ok=True)
            raise
        sync(self.folder)

    def put_part(self, name: str, data: bytes) -> None:
        """Forced to disk under its own name, which must be a new one."""
        if not self.folder.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            sync(self.folder.parent)
        descriptor = os.open(self.folder / name, _NEW, 0o666)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            (self.folder / name).unlink(missing_ok=True)
            raise

    def get(self, name: str, most: int) -> bytes:
        """Of a regular file only; a pipe or device is not waited for."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(self.folder / name, flags)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                raise ValueError("it is no plain file") from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise ValueError("it is no plain file")
            return _within(file.read(most + 1), most)

    def remove(self, name: str) -> None:
        """Unlinked; it is forgotten by the disk with whatever is forced there next."""
        (self.folder / name).unlink(missing_ok=True)


class StoreObjects:
    """Objects below a prefix of an object store, by ``fsspec``; a request that fails is made again."""

    def __init__(self, url: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.where = masked(url).rstrip("/")
        self._sleep = sleep
        self._files, self._prefix = _file_system(url)

    def sizes(self) -> dict[str, int]:
        """As the store lists them now: nothing is kept from before."""

        def listed() -> dict[str, int]:
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._prefix, detail=True, refresh=True)
            except FileNotFoundError:
                return {}
            files = (each for each in found[:MOST_NAMES] if each.get("type") == "file")
            return {str(each["name"]).rpartition("/")[2]: int(each.get("size") or 0) for each in files}

        return self._patiently(listed)

    def put(self, name: str, data: bytes) -> None:
        """In one piece or as a multipart upload: either appears when it is complete."""
        self._patiently(lambda: self._files.pipe_file(f"{self._prefix}/{name}", data))

    def put_part(self, name: str, data: bytes) -> None:
        """The same as ``put``: no store shows pieces."""
        self.put(name, data)

    def get(self, name: str, most: int) -> bytes:
        """At most one byte more than is wanted is fetched."""
        path = f"{self._prefix}/{name}"
        data = self._patiently(lambda: bytes(self._files.cat_file(path, start=0, end=most + 1)))
        return _within(data, most)

    def remove(self, name: str) -> None:
        """What is gone already is passed over."""

        def removed() -> None:
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(f"{self._prefix}/{name}")

        self._patiently(removed)

    def _patiently(self, request: Callable[[], Answer]) -> Answer:
        """The answer of a service that may be out of order for some seconds; what it raises becomes an OSError."""
        for pause_s in (*PAUSES_S, None):
            try:
                return request()
            except FileNotFoundError as error:
                raise FileNotFoundError(masked(str(error))) from None
            except Exception as error:  # services and their libraries have exceptions of all kinds
                words = masked(f"{type(error).__name__}: {error}")
                if isinstance(error, PermissionError):
                    raise PermissionError(words) from None
                if pause_s is None:
                    raise StoreAway(words) from None
                self._sleep(pause_s)
        raise AssertionError("the last pause is none")


def check_packages(place: str) -> None:
    """Raise TrainError if this Python lacks a package without which the place cannot be reached."""
    scheme, is_url, _ = place.partition("://")
    if not is_url or scheme == "file":
        return
    needed = ["fsspec", *filter(None, [PACKAGES.get(scheme)])]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        packages = " ".join(("'elastane[remote]'", *needed[1:]))
        raise TrainError(
            f"checkpoints at {masked(place)} need the package {missing[-1]}; "
            f"where the job's Python is, run: pip install {packages}"
        )


def _file_system(url: str) -> tuple[Any, str]:
    check_packages(url)
    import fsspec

    scheme = url.partition("://")[0]
    try:
        files = fsspec.filesystem(scheme, use_listings_cache=False)
        return files, str(files._strip_protocol(url)).rstrip("/")
    except Exception as error:  # what a service's library says about its settings
        raise TrainError(
            masked(f"checkpoints at {url} cannot be reached: {type(error).__name__}: {error}")
        ) from None


def _within(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return data
