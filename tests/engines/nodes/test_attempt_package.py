"""From a launch on the head to a directory on a node."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elastane.engines.contract import Attempt, Code, Launch, Package, Shared
from elastane.engines.local.json_files import write_json
from elastane.engines.local.launch_file import launch_to_json
from elastane.engines.local.paths import LAUNCH, Layout
from elastane.engines.nodes.attempt_package import AttemptPackage, have_package, package_of
from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_cache import PackageCache
from elastane.engines.nodes.package_tree import PackageError, look_at
from elastane.train.coordinator.wire import Line, encode_message

DIGEST = "a" * 64


def launched(layout: Layout, code: Code) -> str:
    attempt = Attempt("j1", 2)
    folder = layout.attempt(attempt)
    folder.mkdir(parents=True)
    launch = Launch(attempt, "x", ("true",), "/head/copy/sub", folder, layout.run("j1"), code=code)
    write_json(folder / LAUNCH, launch_to_json(launch, {}))
    return str(attempt)


def test_what_was_launched_says_which_package_it_needs(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    told = package_of(layout, launched(layout, Package(DIGEST, "sub", "/home/ann/it")))
    assert told == AttemptPackage("j1.2", DIGEST, "/head/copy/sub", "sub", "/home/ann/it")
    assert Line("the hub", AttemptPackage).decode(encode_message(told)) == told


def test_a_shared_directory_needs_none(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert package_of(layout, launched(layout, Shared("/data"))) is None


@pytest.mark.parametrize("attempt", ["j9.1", "../j1.2", "j1", "", "j1.1"])
def test_what_was_not_launched_needs_none(attempt: str, tmp_path: Path) -> None:
    assert package_of(Layout(tmp_path), attempt) is None


def test_junk_in_place_of_a_launch_needs_none(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    folder = layout.attempt(Attempt("j1", 1))
    folder.mkdir(parents=True)
    (folder / LAUNCH).write_text('{"attempt": 1}')
    assert package_of(layout, "j1.1") is None


def test_a_node_has_a_copy_that_the_attempt_holds_and_the_paths_for_it(tmp_path: Path) -> None:
    (tmp_path / "top" / "sub").mkdir(parents=True)
    file = io.BytesIO()
    digest = write_archive(look_at(tmp_path / "top"), file)

    async def fetch(asked: str) -> AsyncIterator[bytes]:
        assert asked == digest
        yield file.getvalue()

    cache = PackageCache(tmp_path / "packages", most_bytes=-1, young_s=0.0)
    told = AttemptPackage("j1.2", digest, "/head/copy/sub", "sub", "/home/ann/it")
    pairs = asyncio.run(have_package(cache, told, fetch))
    copy = str(tmp_path / "packages" / digest)
    assert pairs == (("/head/copy", copy), ("/home/ann/it", copy))
    assert (Path(copy) / "sub").is_dir()
    assert cache.forget() == []
    cache.release("j1.2")
    assert cache.forget() == [digest]


def test_a_head_that_says_nonsense_is_refused(tmp_path: Path) -> None:
    async def fetch(_: str) -> AsyncIterator[bytes]:
        yield b""

    for told in (AttemptPackage("j1.1", "x", "/"), AttemptPackage("j1.1", DIGEST, "/", "../..")):
        with pytest.raises(PackageError):
            asyncio.run(have_package(PackageCache(tmp_path), told, fetch))
