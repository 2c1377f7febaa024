"""Packing a directory, and unpacking what anybody may have packed."""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastane.engines.nodes.package_archive import digest_of, is_digest, write_archive
from elastane.engines.nodes.package_links import stays_inside
from elastane.engines.nodes.package_tree import Entry, PackageError, Tree, look_at
from elastane.engines.nodes.unpack_package import Bounds, unpack


def packed(top: Path) -> tuple[str, io.BytesIO]:
    file = io.BytesIO()
    return write_archive(look_at(top), file), file


def make(top: Path, *paths: str, text: str = "x") -> Path:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    return top


def kept(top: Path) -> list[str]:
    return [entry.path for entry in look_at(top).entries]


def test_the_same_files_have_the_same_digest_whenever_and_wherever_they_lie(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a", "x/b", "c"), make(tmp_path / "b", "c", "x/b")
    os.utime(first / "c", (1, 1))
    (first / "c").chmod(0o600)
    digest, _ = packed(first)
    assert is_digest(digest)
    assert packed(second)[0] == digest
    (second / "c").chmod(0o755)
    assert packed(second)[0] != digest


def test_what_is_unpacked_is_what_was_packed(tmp_path: Path) -> None:
    top = make(tmp_path / "top", "train.py", "lib/deep/model.py", "run.sh")
    (top / "run.sh").chmod(0o750)
    (top / "empty").mkdir()
    (top / "lib" / "again").symlink_to("deep/model.py")
    (top / "name with ü").write_bytes(bytes(range(256)) * 9000)
    digest, file = packed(top)
    assert digest_of(file) == digest
    into = tmp_path / "into"
    into.mkdir()
    old = os.umask(0o077)
    try:
        assert unpack(file, into) == 3 + 256 * 9000
    finally:
        os.umask(old)
    assert kept(into) == kept(top)
    assert (into / "name with ü").read_bytes() == (top / "name with ü").read_bytes()
    assert (into / "lib" / "again").readlink() == Path("deep/model.py")
    modes = {
        path: stat.S_IMODE((into / path).stat().st_mode) for path in ("run.sh", "train.py", "lib", "empty")
    }
    assert modes == {"run.sh": 0o755, "train.py": 0o644, "lib": 0o755, "empty": 0o755}


def test_what_nobody_wants_to_send_stays_at_home(tmp_path: Path) -> None:
    make(tmp_path, "train.py", ".git/config", "env/pyvenv.cfg", "__pycache__/a.pyc", "home/elastane.db")
    make(tmp_path, "runs/a/plans.jsonl", "runs/a/w1.log", "deep/.venv/x")
    make(tmp_path, *(f"save/step-1/{name}" for name in ("manifest.json", "tensors.safetensors", "tree.json")))
    assert kept(tmp_path) == ["deep", "runs", "save", "train.py"]


def test_ignore_files_hold_below_their_folder_and_later_ones_win(tmp_path: Path) -> None:
    make(tmp_path, "a/data/x", "b/data/x", "a/y.bin", "b/y.bin", "keep.bin", "node_modules/z")
    make(tmp_path, ".gitignore", text="*.bin\nnode_modules\n")
    make(tmp_path, ".elastaneignore", text="!keep.bin\n!node_modules/\n")
    make(tmp_path, "a/.gitignore", text="/data\n!y.bin\n")
    assert kept(tmp_path) == [
        *(".elastaneignore", ".gitignore", "a", "a/.gitignore", "a/y.bin", "b", "b/data", "b/data/x"),
        *("keep.bin", "node_modules", "node_modules/z"),
    ]


def test_an_environment_is_sent_along_when_its_owner_says_so(tmp_path: Path) -> None:
    make(tmp_path, ".venv/pyvenv.cfg")
    make(tmp_path, ".elastaneignore", text="!.venv/\n")
    assert ".venv/pyvenv.cfg" in kept(tmp_path)


def test_links_that_lead_out_are_left_out_and_named(tmp_path: Path) -> None:
    top = make(tmp_path / "top", "a/b")
    make(tmp_path, "secret")
    for name, target in {"out": "../secret", "far": "/etc/passwd", "a/near": "../a/b", "loop": "loop"}.items():
        (top / name).symlink_to(target)
    (top / "folder").symlink_to(tmp_path)
    tree = look_at(top)
    assert [entry.path for entry in tree.entries] == ["a", "a/b", "a/near"]
    assert tree.notes == (
        "left out of the package, for they lead out of the directory: links far, folder, loop and 1 more",
    )


def test_what_is_no_file_is_left_out_and_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert look_at(tmp_path) == Tree(tmp_path, (), ("left out of the package, for they are no files: pipe",))


def test_too_much_is_refused_with_the_largest_folders(tmp_path: Path) -> None:
    make(tmp_path, "data/a/1", "data/a/2", text="x" * 40)
    make(tmp_path, "data/b", "small/c", text="x" * 30)
    with pytest.raises(
        PackageError, match=r"140 bytes .* largest: data/a/ \(80 bytes\), data/b \(30 bytes\), small/c"
    ):
        look_at(tmp_path, largest_bytes=139)
    look_at(tmp_path, largest_bytes=140)
    with pytest.raises(PackageError, match=r"more than 3 files; most lie in small"):
        look_at(tmp_path, most_entries=3)


def test_a_name_that_is_no_text_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"b\xff")).touch()
    with pytest.raises(PackageError, match=r"udcff.*not valid UTF-8"):
        look_at(tmp_path)


def test_a_file_that_changes_while_it_is_packed_is_told(tmp_path: Path) -> None:
    make(tmp_path, "grows", "goes")
    tree = look_at(tmp_path)
    (tmp_path / "grows").write_text("longer")
    (tmp_path / "goes").unlink()
    for path, words in {"grows": "grows changed", "goes": "goes cannot be packed"}.items():
        part = Tree(tmp_path, tuple(entry for entry in tree.entries if entry.path == path))
        with pytest.raises(PackageError, match=words):
            write_archive(part, io.BytesIO())


def test_a_missing_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="nowhere cannot be packed: No such file"):
        look_at(tmp_path / "nowhere")


def test_progress_is_told_in_bytes_of_files(tmp_path: Path) -> None:
    make(tmp_path, "a", "b/c", text="12345")
    (tmp_path / "link").symlink_to("a")
    heard: list[int] = []
    tree = look_at(tmp_path)
    write_archive(tree, io.BytesIO(), heard.append)
    assert sum(heard) == tree.bytes == 10


@pytest.mark.parametrize(
    ("path", "links", "inside"),
    [
        ("l", {"l": "a/b"}, True),
        ("l", {"l": ".."}, False),
        ("a/l", {"a/l": ".."}, True),
        ("a/l", {"a/l": "../.."}, False),
        ("x", {"a/b/c/l": "..", "x": "a/b/c/l/../.."}, True),
        ("x", {"a/b/c/l": "..", "x": "a/b/c/l/../../.."}, False),  # its words alone would end at a
        ("x", {"d": ".", "x": "d/d/d/a"}, True),
        ("x", {"y": "x", "x": "y"}, False),
        ("x", {"x": "a\0b"}, False),
        ("x", {"x": ""}, False),
        ("x", {"x": "/etc"}, False),
    ],
)
def test_links_are_followed_on_paper(path: str, links: dict[str, str], inside: bool) -> None:
    assert stays_inside(path, links) is inside


# Hostile archives.


def member(name: str, mode: int = stat.S_IFREG | 0o644, how: int = zipfile.ZIP_STORED) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr, info.compress_type = 3, mode << 16, how
    return info


LINK, FOLDER = stat.S_IFLNK | 0o777, stat.S_IFDIR | 0o755


def archive(*members: tuple[zipfile.ZipInfo, bytes]) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for info, content in members:
            made.writestr(info, content)
    return file


def many(count: int) -> io.BytesIO:
    return archive(*((member(f"f{number}"), b"") for number in range(count)))


def lying(size: int) -> io.BytesIO:
    """An archive whose list says that its file has one byte."""
    file = archive((member("a", how=zipfile.ZIP_DEFLATED), b"x" * size))
    raw = bytearray(file.getvalue())
    at = raw.rindex(b"PK\x01\x02")
    struct.pack_into("<L", raw, at + 24, 1)
    return io.BytesIO(bytes(raw))


HOSTILE: dict[str, Callable[[], io.BytesIO]] = {
    "up": lambda: archive((member("../out"), b"x")),
    "inner up": lambda: archive((member("a/", FOLDER), b""), (member("a/../../out"), b"x")),
    "absolute": lambda: archive((member("/tmp/out"), b"x")),
    "dot": lambda: archive((member("./out"), b"x")),
    "empty part": lambda: archive((member("a/", FOLDER), b""), (member("a//b"), b"x")),
    "no parent": lambda: archive((member("a/b"), b"x")),
    "link out": lambda: archive((member("l", LINK), b"../out")),
    "absolute link": lambda: archive((member("l", LINK), b"/etc")),
    "through a link": lambda: archive((member("l", LINK), b"."), (member("l/out"), b"x")),
    "link and folder": lambda: archive((member("l", LINK), b"."), (member("l/", FOLDER), b"")),
    "below a file": lambda: archive((member("f"), b"x"), (member("f/g"), b"x")),
    "twice": lambda: archive((member("f"), b"x"), (member("f"), b"y")),
    "device": lambda: archive((member("d", stat.S_IFCHR | 0o666), b"")),
    "pipe": lambda: archive((member("p", stat.S_IFIFO | 0o666), b"")),
    "no kind": lambda: archive((member("n", 0o644), b"")),
    "bz2": lambda: archive((member("b", how=zipfile.ZIP_BZIP2), b"x" * 1000)),
    "no unicode link": lambda: archive((member("l", LINK), b"\xff\xfe")),
    "long link": lambda: archive((member("l", LINK), b"a" * 5000)),
    "long name": lambda: archive((member("a" * 3000), b"")),
    "too many": lambda: many(11),
    "too large": lambda: archive((member("a"), b"x" * 60), (member("b"), b"x" * 60)),
    "lying": lambda: lying(5000),
    "nothing": lambda: io.BytesIO(),
    "no archive": lambda: io.BytesIO(b"x" * 500),
    "comment": lambda: io.BytesIO(many(1).getvalue()[:-2] + b"\x05\x00hello"),
    "something before": lambda: io.BytesIO(b"#!/bin/sh\n" + many(1).getvalue()),
    "cut": lambda: io.BytesIO(many(3).getvalue()[:-30]),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archives_are_refused_and_write_nothing_outside(name: str, tmp_path: Path) -> None:
    into = tmp_path / "a" / "into"
    into.mkdir(parents=True)
    with pytest.raises(PackageError):
        unpack(HOSTILE[name](), into, Bounds(bytes=100, entries=10))
    assert sorted(tmp_path.iterdir()) == [tmp_path / "a"]
    assert sorted((tmp_path / "a").iterdir()) == [into]
    assert sum(path.stat().st_size for path in into.rglob("*") if path.is_file()) <= 100


def test_a_nul_in_a_name_is_not_cut_off_in_silence(tmp_path: Path) -> None:
    raw = archive((member("aXb"), b"x")).getvalue().replace(b"aXb", b"a\0b")
    with pytest.raises(PackageError):
        unpack(io.BytesIO(raw), tmp_path)
    assert not list(tmp_path.iterdir())


names = st.sampled_from(["a", "b", "c", "..", ".", "", "a/b", "b/a", "a/../b"])
members = st.lists(
    st.tuples(
        names,
        st.sampled_from([stat.S_IFREG | 0o644, LINK, FOLDER]),
        st.sampled_from(["a", "..", "../a", "b/.."]),
    ),
    max_size=6,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(chosen=members)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_no_archive_gets_out_of_its_folder(
    chosen: list[tuple[str, int, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    into = outside / "into"
    into.mkdir()
    parts = [
        (member(name + ("/" if mode == FOLDER else ""), mode), b"" if mode == FOLDER else target.encode())
        for name, mode, target in chosen
    ]
    with contextlib.suppress(PackageError):
        unpack(archive(*parts), into)
    assert list(outside.iterdir()) == [into]
    for path in into.rglob("*"):
        assert path.resolve().is_relative_to(into.resolve())


def test_entries_say_what_they_are() -> None:
    assert Entry("a", "file") < Entry("b", "file")
