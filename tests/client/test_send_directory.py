"""A directory on its way to a real server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.running import Running, running
from elastane.client import Client, ClientError
from elastane.client.send_directory import send_directory
from elastane.engines.nodes.package_tree import PackageError
from elastane.engines.nodes.unpack_package import unpack
from elastane.service.messages import PackagedCode, SharedCode
from service.api.house import SPEC, House


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(House(tmp_path_factory.mktemp("home"), burst=10**6)) as found:
        yield found


@pytest.fixture
def owner(server: Running) -> Iterator[Client]:
    server.plans.clear()
    server.seen.clear()
    server.house.service.packages.clear()
    with Client(server.url, "t-owner") as made:
        yield made


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "train.py").write_bytes(bytes(range(256)) * 4000)
    (tmp_path / "top" / "out").symlink_to("/etc")
    return tmp_path / "top"


def test_a_directory_arrives_as_it_is_and_is_sent_once(
    owner: Client, server: Running, top: Path, tmp_path: Path
) -> None:
    heard: list[tuple[str, int, int]] = []
    first = send_directory(owner, top, None, lambda *said: heard.append(said))
    again = send_directory(owner, top)
    assert (first.uploaded, again.uploaded, first.code) == (True, False, again.code)
    assert first.notes == ("left out of the package, for they lead out of the directory: links out",)
    assert [line.partition(" ")[0] for line in server.seen] == ["GET", "PUT", "GET"]
    into = tmp_path / "into"
    into.mkdir()
    unpack(io.BytesIO(server.house.service.packages[first.code.digest]), into)
    assert (into / "train.py").read_bytes() == (top / "train.py").read_bytes()
    assert ("packing", 1_024_000, 1_024_000) in heard
    assert heard[-1][0] == "sending"
    assert heard[-1][1] == heard[-1][2] == len(server.house.service.packages[first.code.digest])


@pytest.mark.parametrize("plan", ["lose", "cut", 503])
def test_what_the_network_loses_is_sent_again(
    plan: str | int, owner: Client, server: Running, top: Path
) -> None:
    server.plans += [None, plan]
    code = send_directory(owner, top).code
    assert code.digest in server.house.service.packages


def test_where_the_job_runs_lies_in_the_package(owner: Client, top: Path) -> None:
    def told(directory: Path, workdir: str | None) -> tuple[str, str]:
        code = send_directory(owner, directory, workdir).code
        return code.top, code.subdirectory

    assert told(top, None) == told(top, ".") == told(top, "") == (str(top), "")
    assert told(top, "sub") == told(top, str(top / "sub")) == (str(top), "sub")
    assert told(top / "sub", "..") == told(top / "sub", str(top)) == (str(top), "")


def test_a_job_is_submitted_with_where_its_code_comes_from(owner: Client, server: Running, top: Path) -> None:
    code = send_directory(owner, top).code
    jobs = {owner.submit(SPEC, directory=top, code=each).id: each for each in (code, SharedCode(), None)}
    assert {job: server.house.service.codes[job] for job in jobs} == jobs
    assert isinstance(code, PackagedCode)


def test_what_cannot_be_packed_is_told_before_anything_is_sent(
    owner: Client, server: Running, tmp_path: Path
) -> None:
    with pytest.raises(PackageError, match="nowhere cannot be packed"):
        send_directory(owner, tmp_path / "nowhere")
    assert server.seen == []


def test_a_server_that_knows_no_packages_says_no(owner: Client, server: Running, top: Path) -> None:
    server.plans += [404, 404]
    with pytest.raises(ClientError):
        send_directory(owner, top)
