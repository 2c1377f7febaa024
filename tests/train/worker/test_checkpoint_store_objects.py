"""Blobs in a folder or a store: whole or not at all, read within bounds, and no trouble tells a secret."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from elastane.train.errors import TrainError
from elastane.train.worker import checkpoint_store_objects
from elastane.train.worker.checkpoint_store_objects import (
    FolderObjects,
    Objects,
    StoreAway,
    StoreObjects,
    check_packages,
    open_objects,
)

fsspec = pytest.importorskip("fsspec")


@pytest.fixture(params=["folder", "store"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return FolderObjects(tmp_path / "a" / "b")
    return open_objects(f"memory://{tmp_path}")


def test_what_is_put_is_listed_and_read_until_it_is_removed(objects: Objects) -> None:
    assert objects.sizes() == {}
    objects.put("one", b"first")
    objects.put("one", b"again")
    objects.put_part("two", b"")
    assert objects.sizes() == {"one": 5, "two": 0}
    assert objects.get("one", 5) == b"again"
    assert objects.get("one", 500) == b"again"
    assert objects.get("two", 0) == b""
    objects.remove("one")
    objects.remove("one")
    assert objects.sizes() == {"two": 0}
    with pytest.raises(FileNotFoundError):
        objects.get("one", 5)


def test_nothing_is_read_beyond_what_was_asked_for(objects: Objects) -> None:
    objects.put("long", b"x" * 1000)
    with pytest.raises(ValueError, match="more than 999 bytes"):
        objects.get("long", 999)


def test_links_pipes_and_folders_are_nobodys_checkpoint(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    (tmp_path / "secret").write_text("of somebody else")
    place = tmp_path / "place"
    objects = FolderObjects(place)
    objects.put("plain", b"x")
    (place / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(place / "pipe")
    (place / "folder").mkdir()
    assert objects.sizes() == {"plain": 1}
    for name in ("link", "pipe", "folder"):
        with pytest.raises((ValueError, IsADirectoryError)):
            objects.get(name, 100)


def test_an_endless_list_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_store_objects, "MOST_NAMES", 3)
    for number in range(9):
        (tmp_path / str(number)).touch()
    assert len(FolderObjects(tmp_path).sizes()) == 3


def test_a_folder_is_forced_to_disk_once_for_each_part_and_once_for_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = FolderObjects(tmp_path)
    forced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (forced.append(fd), real(fd))[1])
    objects.put_part("part", b"x")
    assert len(forced) == 1
    objects.put("manifest", b"x")
    assert len(forced) == 3


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FolderObjects(tmp_path)
    objects.put("name", b"before")

    def full(_fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (objects.put, objects.put_part):
        with pytest.raises(OSError, match="No space"):
            write("name" if write == objects.put else "other", b"after")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"name": b"before"}


class Flaky:
    """A file system of ``fsspec`` that fails so many times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times = error, times

    def invalidate_cache(self) -> None:
        pass

    def ls(self, *_: object, **__: object) -> list[dict[str, object]]:
        if self.times:
            self.times -= 1
            raise self.error
        return [
            {"name": "bucket/x", "size": 4, "type": "file"},
            {"name": "bucket/y", "size": 0, "type": "directory"},
        ]


def store(error: Exception, times: int) -> tuple[StoreObjects, list[float]]:
    slept: list[float] = []
    objects = StoreObjects("memory://bucket", slept.append)
    objects._files = Flaky(error, times)
    return objects, slept


def test_a_store_that_is_out_of_order_for_a_moment_is_asked_again() -> None:
    objects, slept = store(ConnectionError("reset"), 2)
    assert objects.sizes() == {"x": 4}
    assert slept == [1.0, 4.0]


@pytest.mark.parametrize(
    ("error", "times"), [(RuntimeError("at https://me:pw@host/?X-Amz-Signature=abc down"), 9)]
)
def test_in_the_end_it_is_told_without_secrets(error: Exception, times: int) -> None:
    objects, slept = store(error, times)
    with pytest.raises(StoreAway, match=r"^RuntimeError: at https://…@host/\?X-Amz-Signature=… down$"):
        objects.sizes()
    assert slept == list(checkpoint_store_objects.PAUSES_S)


def test_who_may_not_enter_is_told_at_once() -> None:
    objects, slept = store(PermissionError("Forbidden"), 9)
    with pytest.raises(PermissionError, match="Forbidden"):
        objects.sizes()
    assert not slept


@pytest.mark.parametrize(("place", "package"), [("s3://bucket/a", "s3fs"), ("gs://bucket/a", "gcsfs")])
def test_a_missing_package_is_one_line_with_the_command(
    place: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = checkpoint_store_objects.importlib.util.find_spec
    find: Callable[[str], object] = lambda name: None if name == package else there(name)  # noqa: E731
    monkeypatch.setattr(checkpoint_store_objects.importlib.util, "find_spec", find)
    for check in (check_packages, open_objects):
        with pytest.raises(TrainError) as caught:
            check(place)
        assert str(caught.value) == (
            f"checkpoints at {place} need the package {package}; where the job's Python is, run: "
            f"pip install 'elastane[remote]' {package}"
        )


@pytest.mark.parametrize("place", ["/a/b", "file:///a/b"])
def test_a_folder_needs_no_package(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_store_objects.importlib.util, "find_spec", lambda _name: None)
    check_packages(place)
    assert open_objects(place).where == "/a/b"


def test_what_is_no_place_names_the_variable_and_shows_no_password() -> None:
    with pytest.raises(
        TrainError, match=r"^ELASTANE_CHECKPOINTS: got 's3://…@bucket/x'; expected a URL without"
    ):
        open_objects("s3://me:secret@bucket/x")
