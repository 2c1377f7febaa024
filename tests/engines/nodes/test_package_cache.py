"""Packages on a head and on nodes: made once, held while they are used, forgotten afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from elastane.engines.contract import Code, Package, Shared
from elastane.engines.nodes.package_archive import write_archive
from elastane.engines.nodes.package_cache import PackageCache
from elastane.engines.nodes.package_places import (
    code_from_json,
    code_to_json,
    command_in_copy,
    package,
    package_relocations,
    variables_in_copy,
)
from elastane.engines.nodes.package_store import PackageStore
from elastane.engines.nodes.package_tree import PackageError, look_at


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


class Line:
    """Where packages come from; counts how often each was asked for."""

    def __init__(self, *archives: bytes) -> None:
        self.archives = list(archives)
        self.asked = 0

    async def fetch(self, digest: str) -> AsyncIterator[bytes]:
        self.asked += 1
        for at in range(0, len(self.archives[0]), 100):
            await asyncio.sleep(0)
            yield self.archives[0][at : at + 100]


def archive(top: Path, text: str = "print(1)") -> tuple[str, bytes]:
    top.mkdir(exist_ok=True)
    (top / "train.py").write_text(text)
    file = io.BytesIO()
    return write_archive(look_at(top), file), file.getvalue()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(tmp_path: Path, clock: Clock) -> PackageCache:
    return PackageCache(tmp_path / "cache", most_bytes=10, young_s=60, clock=clock)


def test_a_package_is_fetched_once_however_many_ask_at_once(tmp_path: Path, cache: PackageCache) -> None:
    digest, data = archive(tmp_path / "top")
    line, other = Line(data), PackageCache(tmp_path / "cache")

    async def all_at_once() -> list[Path]:
        asked = (each.copy(digest, line.fetch, f"j{n}.1") for n in range(5) for each in (cache, other))
        return await asyncio.gather(*asked)

    [place] = set(asyncio.run(all_at_once()))
    assert (line.asked, (place / "train.py").read_text()) == (1, "print(1)")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(
        [digest, f"{digest}.json", f"{digest}.lock", "held"]
    )


def test_another_process_waits_for_the_one_that_fetches(tmp_path: Path, cache: PackageCache) -> None:
    digest, data = archive(tmp_path / "top")
    (tmp_path / "cache").mkdir()
    held = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "cache" / f"{digest}.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert held.stdin is not None
    assert held.stdout is not None
    assert held.stdout.readline() == b"held\n"
    line = Line(data)

    async def ask() -> None:
        asking = asyncio.ensure_future(cache.copy(digest, line.fetch))
        done, _ = await asyncio.wait([asking], timeout=0.2)
        assert not done
        assert not line.asked
        held.kill()
        held.wait()
        await asking

    asyncio.run(ask())
    assert line.asked == 1


HOLD = """
import sys
from pathlib import Path
from elastane.engines.local.json_files import Lock
lock = Lock(Path(sys.argv[1]))
assert lock.take()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("wrong", [b"", b"junk", b"cut"])
def test_what_is_not_what_its_digest_says_is_refused_and_not_kept(
    wrong: bytes, tmp_path: Path, cache: PackageCache
) -> None:
    digest, data = archive(tmp_path / "top")
    line = Line(data[:-1] if wrong == b"cut" else wrong)
    with pytest.raises(PackageError, match=f"what came is not package {digest[:12]}"):
        asyncio.run(cache.copy(digest, line.fetch))
    assert not cache.holds(digest)
    line.archives = [data]
    assert asyncio.run(cache.copy(digest, line.fetch)).is_dir()


def test_half_a_copy_that_somebody_left_is_made_anew(tmp_path: Path, cache: PackageCache) -> None:
    digest, data = archive(tmp_path / "top")
    for left in (digest, f".new-{digest}-dead"):
        (tmp_path / "cache" / left).mkdir(parents=True)
        (tmp_path / "cache" / left / "half").touch()
    (tmp_path / "cache" / f".new-{digest}-dead.zip").write_text("half")
    place = asyncio.run(cache.copy(digest, Line(data).fetch))
    assert [path.name for path in place.iterdir()] == ["train.py"]
    assert not list((tmp_path / "cache").glob(".new-*"))


def test_who_gives_up_waiting_leaves_nothing_in_the_way(tmp_path: Path, cache: PackageCache) -> None:
    digest, data = archive(tmp_path / "top")

    async def never(digest: str) -> AsyncIterator[bytes]:
        yield data[:10]
        await asyncio.Event().wait()

    async def play() -> Path:
        asking = asyncio.ensure_future(cache.copy(digest, never))
        while not list((tmp_path / "cache").glob(".new-*")):
            await asyncio.sleep(0)
        asking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asking
        assert not list((tmp_path / "cache").glob(".new-*"))
        return await cache.copy(digest, Line(data).fetch)

    assert (asyncio.run(play()) / "train.py").is_file()


def test_a_copy_from_before_the_machine_was_started_anew_is_not_trusted(
    tmp_path: Path, cache: PackageCache
) -> None:
    digest, data = archive(tmp_path / "top")
    line = Line(data)
    asyncio.run(cache.copy(digest, line.fetch))
    marker = tmp_path / "cache" / f"{digest}.json"
    marker.write_text(marker.read_text().replace('"boot": "', '"boot": "another-'))
    assert not cache.holds(digest)
    asyncio.run(cache.copy(digest, line.fetch))
    assert line.asked == 2


@pytest.mark.parametrize("digest", ["", "a" * 63, "A" * 64, "../" + "a" * 61, "a" * 64 + "\n"])
def test_only_a_digest_names_a_package(digest: str, cache: PackageCache, tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no digest"):
        asyncio.run(cache.copy(digest, Line(b"").fetch))
    store = PackageStore(tmp_path)
    assert store.size(digest) is None
    with pytest.raises(PackageError, match="no digest"):
        store.receive(digest)


@pytest.mark.parametrize("holder", ["../x", ".", "a/b", "x" * 200])
def test_only_a_name_holds_a_package(holder: str, cache: PackageCache) -> None:
    with pytest.raises(PackageError, match="no name"):
        asyncio.run(cache.copy("a" * 64, Line(b"").fetch, holder))


def test_what_nobody_holds_is_forgotten_the_longest_unused_first(
    tmp_path: Path, cache: PackageCache, clock: Clock
) -> None:
    digests = []
    for number in range(4):
        digest, data = archive(tmp_path / "top", f"print({number})")  # 8 bytes each, 10 are kept
        asyncio.run(cache.copy(digest, Line(data).fetch, "j1.1" if number == 0 else ""))
        digests.append(digest)
        clock.now_s += 10
    assert cache.forget() == []  # all are young
    clock.now_s += 100
    assert cache.forget(keep={digests[1]}) == digests[2:]
    assert [cache.holds(digest) for digest in digests] == [True, True, False, False]
    cache.release("j2.1")
    assert cache.forget(keep={digests[1]}) == []
    cache.release("j1.1")
    assert cache.forget(keep={digests[1]}) == [digests[0]]
    assert cache.forget() == []  # small enough


def test_everything_can_be_let_go_at_once(tmp_path: Path, cache: PackageCache, clock: Clock) -> None:
    for number in range(2):
        digest, data = archive(tmp_path / "top", f"print({number})")
        asyncio.run(cache.copy(digest, Line(data).fetch, "j1.1"))
    clock.now_s += 100
    assert cache.forget() == []
    cache.release_all()
    assert len(cache.forget()) == 1


def test_a_full_disk_is_told_in_one_sentence(
    tmp_path: Path, cache: PackageCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, data = archive(tmp_path / "top")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("elastane.engines.nodes.package_cache.unpack", full)
    with pytest.raises(PackageError, match=r"cannot be unpacked in .*cache: No space left on device"):
        asyncio.run(cache.copy(digest, Line(data).fetch))
    assert not cache.holds(digest)


def test_a_store_keeps_what_its_digest_says_and_nothing_else(tmp_path: Path) -> None:
    digest, data = archive(tmp_path / "top")
    store = PackageStore(tmp_path / "home" / "packages")
    with store.receive(digest) as incoming:
        incoming.write(data[:10])
        assert store.size(digest) is None
        incoming.write(data[10:])
        assert incoming.finish() == len(data)
    with store.receive("b" * 64) as incoming:
        incoming.write(data)
        with pytest.raises(PackageError, match="have not the digest"):
            incoming.finish()
    with store.receive("b" * 64) as incoming:
        incoming.write(data)  # and then whoever sent it hung up
    assert store.size(digest) == len(data)
    assert [path.name for path in (tmp_path / "home" / "packages").iterdir()] == [f"{digest}.zip"]


def test_an_archive_that_never_ends_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastane.engines.nodes.package_store.LARGEST_ARCHIVE", 10)
    with pytest.raises(PackageError, match="at most 10 bytes"), PackageStore(tmp_path).receive("a" * 64) as one:
        one.write(b"x" * 11)


def test_a_node_gets_from_a_head_what_a_job_was_submitted_with(tmp_path: Path, cache: PackageCache) -> None:
    digest, data = archive(tmp_path / "top")
    store = kept(tmp_path, digest, data)
    here = asyncio.run(store.copy(digest))
    there = asyncio.run(cache.copy(digest, store.fetch, "j1.1"))
    assert here != there
    assert (here / "train.py").read_text() == (there / "train.py").read_text() == "print(1)"
    assert here == store.copy_place(digest)
    with pytest.raises(PackageError, match="there is no package 'bbbbbbbbbbbb' here"):
        asyncio.run(cache.copy("b" * 64, store.fetch))


def kept(tmp_path: Path, digest: str, data: bytes, clock: Clock | None = None) -> PackageStore:
    store = PackageStore(tmp_path / "packages", most_bytes=1, young_s=60, clock=clock or Clock())
    with store.receive(digest) as incoming:
        incoming.write(data)
        incoming.finish()
    store.size(digest)
    return store


def test_a_store_forgets_what_no_job_needs(tmp_path: Path, clock: Clock) -> None:
    first, second = (archive(tmp_path / "top", text) for text in ("1", "2"))
    kept(tmp_path, *first, clock)
    clock.now_s += 10
    store = kept(tmp_path, *second, clock)
    asyncio.run(store.copy(first[0]))
    assert store.forget(()) == []  # somebody may be about to use them
    clock.now_s += 100
    assert store.forget({first[0]}) == [second[0]]
    assert store.copy_place(first[0]).is_dir()
    assert store.forget(()) == [first[0]]
    assert store.size(first[0]) is None


def test_what_was_being_received_when_somebody_died_is_cleared_away(tmp_path: Path, clock: Clock) -> None:
    store = PackageStore(tmp_path, young_s=60, clock=clock)
    for name, age_s in {".part-old": 100, ".part-new": 10}.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (clock.now_s - age_s, clock.now_s - age_s))
    store.forget(())
    assert [path.name for path in tmp_path.iterdir()] == [".part-new"]


@pytest.mark.parametrize(
    "code", [Shared("/data"), Package("a" * 64, "sub/deep", "/home/ann/it"), Package("a" * 64)]
)
def test_code_survives_its_way_through_json(code: Code) -> None:
    assert code_from_json(code_to_json(code)) == code


def test_code_of_which_nothing_is_said_is_shared() -> None:
    assert code_from_json(None) == code_from_json({}) == Shared()
    assert code_from_json(None, "/data") == Shared("/data")


@pytest.mark.parametrize("subdirectory", ["..", "a/../..", "/etc", "a\0b"])
def test_a_subdirectory_stays_in_its_package(subdirectory: str) -> None:
    with pytest.raises(PackageError, match="leads out"):
        package("a" * 64, subdirectory)


def test_what_a_command_names_of_its_own_directory_is_taken_from_the_package(tmp_path: Path) -> None:
    code = package("a" * 64, "", "/home/ann/it/")
    copy = tmp_path / "packages" / "unpacked" / code.digest
    (copy / "lib").mkdir(parents=True)
    (copy / "train.py").touch()
    command = ("python", "/home/ann/it/train.py", "--data", "/home/ann/it/data", "/home/ann/item", "train.py")
    assert command_in_copy(code, tmp_path, command) == ("python", str(copy / "train.py"), *command[2:])
    variables = {"PYTHONPATH": "/home/ann/it:/home/ann/it/lib:/opt/x:", "OTHER": "/home/ann/it"}
    assert variables_in_copy(code, tmp_path, variables) == {
        "PYTHONPATH": f"{copy}:{copy / 'lib'}:/opt/x:",
        "OTHER": "/home/ann/it",
    }
    assert variables_in_copy(code, tmp_path, {"A": "b"}) == {"A": "b"}
    assert command_in_copy(package("a" * 64), tmp_path, ("/train.py",)) == ("/train.py",)


def test_paths_of_the_head_and_of_the_owner_become_those_of_the_node(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to("real")
    code = package("a" * 64, "sub/deep", "/home/ann/it")
    pairs = package_relocations(code, str(tmp_path / "home" / "copy" / "sub" / "deep"), Path("/scratch/a"))
    assert pairs == (
        (str(tmp_path / "home" / "copy"), "/scratch/a"),
        (str(tmp_path / "real" / "copy"), "/scratch/a"),
        ("/home/ann/it", "/scratch/a"),
    )
    assert package_relocations(package("a" * 64), "/copy", Path("/n")) == (("/copy", "/n"),)
