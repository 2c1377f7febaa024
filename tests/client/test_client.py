"""The client against a real server: every verb, every kind of refusal, and a network that fails."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.running import Running, running
from elastane.client import (
    Busy,
    Client,
    ClientError,
    Forbidden,
    NotFoundError,
    NotRunning,
    RequestRefused,
    SpecRefused,
    Unauthorized,
)
from elastane.client.locate_server import Address, find
from elastane.client.wire import Wire
from elastane.kit.home_names import name_of
from service.api.fakes import write_log
from service.api.house import FOREIGN_JOB, JOB, SPEC, House


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(House(tmp_path_factory.mktemp("home"), poll_s=0.01, burst=10**6)) as found:
        yield found


@pytest.fixture(autouse=True)
def _own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ELASTANE_HOME", str(tmp_path / "nothing"))
    for name in ("ELASTANE_URL", "ELASTANE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def owner(server: Running) -> Iterator[Client]:
    yield from client(server, "owner")


@pytest.fixture
def admin(server: Running) -> Iterator[Client]:
    yield from client(server, "admin")


def client(server: Running, who: str) -> Iterator[Client]:
    server.plans.clear()
    server.seen.clear()
    with Client(server.url, f"t-{who}") as made:
        yield made


def test_the_verbs_of_a_user(owner: Client, tmp_path: Path) -> None:
    job = owner.submit(SPEC, directory=tmp_path).id
    assert owner.job(job).directory == str(tmp_path)
    assert job in [found.id for found in owner.jobs("all", owner="owner")]
    assert owner.why(job, instead=True).id == job
    assert owner.suspend(job).held
    assert not owner.resume(job).held
    assert owner.scale(job, 3).pinned == 3
    assert owner.scale(job, None).pinned is None
    assert owner.move(job, "n1").nodes == {"n1": 1}
    assert owner.cancel(job).state == "cancelled"
    assert owner.life(job)[0].kind == "submitted"
    assert owner.whoami().name == "owner"
    assert owner.info().api == 1
    assert [node.id for node in owner.nodes()] == ["n0", "n1"]


def test_the_verbs_of_an_admin(admin: Client, server: Running) -> None:
    assert admin.drain("n0").state == "draining"
    assert admin.undrain("n0").state == "up"
    assert admin.set_policy("tiresias").policy == admin.policy().policy == "tiresias"
    assert admin.set_shadow("fifo").shadow == "fifo"
    assert admin.set_shadow(None).shadow is None
    assert admin.set_quota("a", 3, lends=False).slots == 3
    assert [quota.lends for quota in admin.quotas()] == [False]
    admin.add_user("new", "viewer", "b")
    assert admin.set_role("new", "user") in admin.users()
    made = admin.new_token("new", label="laptop", lifetime_s=60)
    with Client(server.url, made.token) as theirs:
        assert theirs.whoami().tenant == "b"
        admin.revoke_token(made.id)
        with pytest.raises(Unauthorized):
            theirs.whoami()
    assert [token.label for token in admin.tokens("new")] == ["laptop"]
    admin.remove_user("new")
    assert admin.audit()[-1].action == "remove_user"


def test_each_refusal_is_an_error_of_its_own_kind(owner: Client, server: Running) -> None:
    with pytest.raises(NotFoundError, match=f"there is no job '{FOREIGN_JOB}'"):
        owner.job(FOREIGN_JOB)
    with pytest.raises(NotFoundError):
        owner.job("../users")
    with pytest.raises(Forbidden, match="admin"):
        owner.users()
    with pytest.raises(Unauthorized, match=r"ELASTANE_TOKEN"), Client(server.url, "wrong") as stranger:
        stranger.info()
    with pytest.raises(Unauthorized), Client(server.url) as nobody:
        nobody.info()
    with pytest.raises(SpecRefused) as refused:
        owner.submit({"command": "x", "priorty": 1})
    assert [wrong["field"] for wrong in refused.value.problems] == ["priorty"]
    with pytest.raises(SpecRefused, match="workers"):
        owner.scale(JOB, 0)
    with pytest.raises(RequestRefused, match="the cluster has 4"):
        owner.submit({**SPEC, "workers": 9})


def test_a_submission_whose_answer_is_lost_is_one_job(owner: Client, server: Running) -> None:
    before = len(owner.jobs("all"))
    server.plans[:] = ["lose", 503, 429, "lose"]
    submitted = owner.submit(SPEC)
    assert submitted.repeated
    assert len(owner.jobs("all")) == before + 1


def test_two_submissions_are_two_jobs_and_one_key_is_one(owner: Client) -> None:
    assert owner.submit(SPEC).id != owner.submit(SPEC).id
    assert owner.submit(SPEC, key="mine").id == owner.submit(SPEC, key="mine").id


def test_a_get_is_repeated_until_it_is_answered(owner: Client, server: Running) -> None:
    server.plans[:] = ["cut", 503, "lose", 429]
    assert owner.info().slots == 4
    assert len(server.seen) == 5


def test_another_change_is_not_repeated_when_nobody_knows_whether_it_was_made(
    owner: Client, server: Running
) -> None:
    job = owner.submit(SPEC).id
    owner.info()
    server.seen.clear()
    server.plans[:] = ["lose"]
    with pytest.raises(NotRunning):
        owner.cancel(job)
    assert len(server.seen) == 1


def test_a_service_that_stays_busy_is_given_up_after_its_time(server: Running) -> None:
    slept: list[float] = []
    wire = Wire(Address(server.url, "t-owner"), 5.0, slept.append)
    server.plans[:] = [429] * 1000
    with pytest.raises(Busy, match="not now"):
        wire.ask("GET", "/info")
    wire.close()
    server.plans.clear()
    assert 3.0 < sum(slept) <= 5.0


def test_where_nobody_listens_it_says_so_soon_and_what_to_do() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        slept: list[float] = []
        with pytest.raises(NotRunning, match="elastane up"):
            Wire(Address(url, None), 10.0, slept.append).ask("GET", "/info")
    assert len(slept) == 2


def test_a_service_that_was_there_may_be_away_for_a_moment(tmp_path: Path) -> None:
    house = House(tmp_path)
    with running(house) as first:
        port = int(first.url.rsplit(":", 1)[1])
        restarted: list[Running] = []

        def wait(_: float) -> None:
            if not restarted:
                restarted.append(second.__enter__())

        wire = Wire(Address(first.url, "t-owner"), 10.0, wait)
        wire.ask("GET", "/info")
    second = running(House(tmp_path / "again"), port)
    try:
        assert wire.ask("POST", f"/jobs/{JOB}/suspend").is_success
    finally:
        wire.close()
        second.__exit__(None, None, None)
    assert restarted


def test_logs_are_read_in_parts(owner: Client, server: Running) -> None:
    first = owner.log(JOB, 1, "w0", limit=3)
    rest = owner.log(JOB, 1, "w0", offset=first.next_offset)
    assert first.text + rest.text == b"hello\n"
    assert owner.log(JOB, 1, "w0", offset=rest.next_offset).text == b""
    assert [file.worker for file in owner.logs(JOB)] == ["w0"]


def test_output_is_followed_over_lost_connections_and_attempts_to_its_end(
    owner: Client, server: Running
) -> None:
    job = owner.submit(SPEC).id
    service = server.house.service
    write_log(service, job, "wör")
    server.plans[:] = [None, None, "cut", 503]
    text = owner.follow_logs(job)
    assert next(text) == "wör"
    write_log(service, job, "ld\n")
    assert next(text) == "ld\n"

    def restart() -> None:
        service.change(job, "restarted", attempt=2)
        write_log(service, job, "again\n", attempt=2)

    server.do(restart)
    assert next(text) == "again\n"
    server.do(lambda: service.change(job, "ended", ended_s=1.0))
    assert "".join(text) == ""


def test_a_log_is_followed_whatever_attempt_its_job_has_come_to(owner: Client, server: Running) -> None:
    job = owner.submit(SPEC).id  # its attempt is the first, and this log of none
    write_log(server.house.service, job, "one\n", attempt=0)
    text = owner.follow_logs(job, "w0")
    assert next(text) == "one\n"
    write_log(server.house.service, job, "two\n", attempt=0)
    assert next(text) == "two\n"
    server.do(lambda: server.house.service.change(job, "ended", ended_s=1.0))
    assert list(text) == []


def test_a_job_that_ends_without_a_log_has_no_output(owner: Client) -> None:
    job = owner.submit(SPEC).id
    owner.cancel(job)
    assert list(owner.follow_logs(job)) == []


def test_a_character_cut_in_two_by_the_network_arrives_whole(tmp_path: Path) -> None:
    house = House(tmp_path, chunk_bytes=1, poll_s=0.01)
    write_log(house.service, JOB, "größer")
    house.service.change(JOB, "ended", ended_s=1.0)
    with running(house) as server, Client(server.url, "t-owner") as owner:
        assert "".join(owner.follow_logs(JOB)) == "hello\ngrößer"


def test_events_go_on_over_lost_connections_each_once(owner: Client, server: Running) -> None:
    service = server.house.service
    start = len(service.log)
    job = owner.submit(SPEC).id
    server.plans[:] = ["cut", 503]
    seen = owner.events(start)
    assert next(seen).kind == "submitted"
    server.do(lambda: service.change(job, "first"))
    server.do(lambda: service.change(job, "second"))
    assert [next(seen).kind, next(seen).kind] == ["first", "second"]


def test_events_outlive_a_restart_of_the_service(tmp_path: Path) -> None:
    house = House(tmp_path)
    with running(house) as first, Client(first.url, "t-owner") as owner:
        seen = owner.events()
        assert next(seen).seq == 1
        port = int(first.url.rsplit(":", 1)[1])
    house.service.change(JOB, "while nobody served")
    with running(house, port):
        assert next(seen).seq == 3  # the second entry is about another tenant's job


def test_url_and_token_come_from_arguments_then_environment_then_home(tmp_path: Path) -> None:
    home = {"ELASTANE_HOME": str(tmp_path)}
    with pytest.raises(NotRunning, match="elastane up"):
        find(None, None, home)
    (tmp_path / "url").write_text("http://127.0.0.1:1/\n")
    (tmp_path / "token").write_text("from-home\n")
    assert find(None, None, home) == Address("http://127.0.0.1:1", "from-home")
    assert find("http://127.0.0.1:1", None, home).token == "from-home"
    there = {**home, "ELASTANE_URL": "https://gpu.example/x/", "ELASTANE_TOKEN": "from-env"}
    assert find(None, None, there) == Address("https://gpu.example/x", "from-env")
    assert find("http://b:2", "mine", there) == Address("http://b:2", "mine")


def test_the_token_of_ones_home_is_not_told_to_another_service(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1")
    (tmp_path / "token").write_text("from-home")
    assert find("http://evil.example", None, {"ELASTANE_HOME": str(tmp_path)}).token is None


@pytest.mark.parametrize("variables", ["mark", "mark and home", "job and home"])
def test_a_job_does_not_take_the_admins_token_unasked(
    tmp_path: Path, variables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / ".elastane"
    home.mkdir()
    (home / "url").write_text("http://127.0.0.1:1")
    (home / "token").write_text("of-the-admin")
    monkeypatch.setenv("HOME", str(tmp_path))
    inside = {
        "mark": {"ELASTANE_MARK": "of a node elsewhere|j1.1|n0|x"},
        "mark and home": {"ELASTANE_MARK": f"{name_of(home)}|j1.1|n0|x", "ELASTANE_HOME": str(home)},
        "job and home": {"ELASTANE_JOB": "j1", "ELASTANE_HOME": str(home)},
    }[variables]
    for url in (None, "http://127.0.0.1:1/"):
        with pytest.raises(ClientError, match=r"this is a job, .* pass a token of its own") as refused:
            find(url, None, inside)
        assert "of-the-admin" not in str(refused.value)
        assert "\n" not in str(refused.value)
    assert find(None, "mine", inside).token == "mine"
    assert find(None, None, {**inside, "ELASTANE_TOKEN": "mine"}).token == "mine"
    (home / "token").unlink()
    assert find(None, None, inside) == Address("http://127.0.0.1:1", None)


def test_a_job_that_has_an_elastane_of_its_own_may_use_it(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("http://127.0.0.1:1")
    (tmp_path / "token").write_text("its-own")
    mark = f"{name_of(tmp_path / 'the service')}|j1.1|n0|x"
    assert find(None, None, {"ELASTANE_MARK": mark, "ELASTANE_HOME": str(tmp_path)}).token == "its-own"


@pytest.mark.parametrize(
    "url", ["127.0.0.1:7070", "ftp://x", "http://", "http://[::1", "http://u:p@x", "http://x:y"]
)
def test_what_is_no_url_is_one_clear_line(url: str) -> None:
    with pytest.raises(ClientError, match="not a URL"):
        Client(url)


def test_a_token_is_not_shown_with_its_address() -> None:
    assert "secret" not in repr(Address("http://x", "secret"))


def test_importing_the_client_loads_neither_httpx_nor_the_server() -> None:
    heavy = ("httpx", "fastapi", "uvicorn", "torch")
    code = f"import sys, elastane.client; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
