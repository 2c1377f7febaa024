"""Logs on their way from nodes to the head: nothing twice, what is missing is said, nobody is led astray."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastane.engines.local.log_rotation import rotate
from elastane.engines.local.paths import Layout
from elastane.engines.local.untrusted_files import open_below
from elastane.engines.nodes.log_append import LogAppender, RefusedPartError, gap_line
from elastane.engines.nodes.log_parts import PART_BYTES, Budget, LogOffsets, LogPart, is_worker, job_of
from elastane.engines.nodes.log_tail import LogTail, Pace
from elastane.train.coordinator.wire import Line, encode_message

ATTEMPT = "j1.2"
SMALL = Pace(rate=40, burst=40, patient=64, newest=32, look=1000, part=16, longest=100)
GAP = re.compile(rb"elastane: \xe2\x80\xa6 ([0-9,]+) bytes left out\n")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class World:
    """A node with a job's logs, and a head that gets them."""

    def __init__(self, home: Path, pace: Pace | None = None) -> None:
        self.clock, self.pace = Clock(), pace or Pace()
        self.node, self.layout = home / "node", Layout(home / "head")
        (self.node / "logs").mkdir(parents=True)
        (self.layout.run("j1") / "logs").mkdir(parents=True)
        self.layout.records("j1").mkdir(parents=True)
        self.memory = home / "memory.json"
        self.truth: dict[str, bytes] = {}
        """All that each worker's log ever held, the lines about cuts included."""
        self.sent: list[LogPart] = []
        self.new_node()
        self.new_head()

    def new_node(self) -> None:
        self.tail = LogTail(ATTEMPT, self.node, self.memory, self.pace, self.clock)

    def new_head(self, **how: int) -> None:
        self.head = LogAppender(self.layout, **{"burst": 10**9, **how}, clock=self.clock)

    def log(self, worker: str = "w1") -> Path:
        return self.node / "logs" / f"{worker}.log"

    def write(self, data: bytes, worker: str = "w1") -> None:
        with self.log(worker).open("ab") as file:
            file.write(data)
        self.truth[worker] = self.truth.get(worker, b"") + data

    def cut(self) -> None:
        """Somebody else sets long logs aside."""
        for path in rotate(self.node / "logs", self.pace.longest):
            self.truth[path.stem] += path.read_bytes()

    def look(self, fates: str = "") -> None:
        """Parts that are new arrive (``d``), are lost (``l``) or arrive twice (``t``)."""
        before = {worker: self.log(worker).stat().st_size for worker in self.truth}
        parts = self.tail.look()
        for worker, size in before.items():
            if self.log(worker).stat().st_size < size:
                self.truth[worker] += self.log(worker).read_bytes()
        for place, part in enumerate(parts):
            self.deliver(part, fates[place % len(fates)] if fates else "d")

    def deliver(self, part: LogPart, fate: str = "d") -> None:
        self.sent.append(part)
        for _ in range("ldt".index(fate)):
            self.head.append(part)

    def reconnect(self) -> None:
        self.tail.resume(self.head.offsets(ATTEMPT))

    def settle(self) -> None:
        """The line is up again, and nobody writes any more."""
        self.reconnect()
        while parts := self.tail.rest():
            for part in parts:
                self.head.append(part)

    def told(self, worker: str = "w1") -> bytes:
        """What the head has."""
        path = self.layout.run("j1") / "logs" / f"{worker}.log"
        return path.read_bytes() if path.exists() else b""


def is_copy(told: bytes, truth: bytes) -> bool:
    """Whether a log is another one with gaps that are told, up to its end."""
    pieces = GAP.split(told)
    places = {0}
    for number, piece in enumerate(pieces):
        if number % 2:
            places = {place + int(piece.replace(b",", b"")) for place in places}
            continue
        reads = [piece]
        if number < len(pieces) - 1 and piece.endswith(b"\n"):
            reads.append(piece[:-1])  # a line about a gap begins a line
        places = {
            place + len(read) for place in places for read in reads if truth[place : place + len(read)] == read
        }
    return len(truth) in places


def test_a_copy_is_told_from_others() -> None:
    assert is_copy(b"abc", b"abc")
    assert is_copy(b"a\n" + gap_line(1) + b"c", b"abc")
    assert is_copy(gap_line(1000) + b"c", b"x" * 1000 + b"c")
    assert not any(
        is_copy(told, b"abc") for told in (b"", b"ab", b"abcc", b"ac", gap_line(2), b"x\n" + gap_line(3))
    )


workers = st.sampled_from(["w1", "w2"])
texts = st.text(alphabet="ab\n", min_size=1, max_size=60).map(str.encode)
steps = st.one_of(
    st.tuples(st.just("write"), workers, texts),
    st.tuples(st.just("look"), st.text(alphabet="dlt", max_size=4)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("again"), st.integers(0, 50)),
    st.tuples(st.just("wait"), st.sampled_from([0.1, 1.0, 10.0])),
    st.tuples(st.sampled_from(["reconnect", "new node", "new head"])),
)


def play(world: World, script: list[tuple[object, ...]]) -> None:
    for step in script:
        match step:
            case ("write", str(worker), bytes(data)):
                world.write(data, worker)
            case ("look", str(fates)):
                world.look(fates)
            case ("cut",):
                world.cut()
                world.look()  # a log that is cut twice unseen has lost what nobody can count
            case ("again", int(number)) if world.sent:
                world.deliver(world.sent[number % len(world.sent)])
            case ("wait", float(wait_s)):
                world.clock.now_s += wait_s
            case ("reconnect",):
                world.reconnect()
            case ("new node",):
                world.new_node()
                world.reconnect()
            case ("new head",):
                world.new_head()


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(steps, max_size=30))
def test_whatever_happens_on_the_way_the_copy_has_all_or_says_what_is_missing(
    script: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("world"), SMALL)
    play(world, script)
    world.settle()
    for worker, truth in world.truth.items():
        assert is_copy(world.told(worker), truth), (worker, world.told(worker), truth)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=st.lists(steps.filter(lambda step: step[0] != "wait"), max_size=30))
def test_on_a_line_that_comes_back_in_time_nothing_is_missing(
    script: list[tuple[object, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    generous = Pace(part=16, longest=100)
    world = World(tmp_path_factory.mktemp("world"), generous)
    kept = [
        ("look", "d" if "l" in str(step[1:]) else step[1]) if step[0] == "look" else step for step in script
    ]
    play(world, kept)
    world.settle()
    for worker, truth in world.truth.items():
        assert world.told(worker) == truth


def test_what_is_set_aside_is_read_to_its_end_before_the_new_beginning(tmp_path: Path) -> None:
    world = World(tmp_path, Pace(longest=100))
    world.write(b"x" * 60)
    world.look()
    world.write(b"y" * 60 + b"\n")
    world.cut()
    world.write(b"after")
    world.look()
    assert world.told() == world.truth["w1"]
    assert b"x" * 60 + b"y" * 60 + b"\nelastane: this log grew too long" in world.told()


def test_a_node_that_starts_again_goes_on_also_behind_a_cut(tmp_path: Path) -> None:
    world = World(tmp_path, Pace(longest=100))
    for _ in range(3):
        world.write(b"x" * 90 + b"\n")
        world.look()
        world.cut()
        world.new_node()
        world.reconnect()
        world.look()
    world.settle()
    assert world.told() == world.truth["w1"]


def test_a_worker_that_writes_too_much_is_followed_at_its_end(tmp_path: Path) -> None:
    world = World(tmp_path, Pace(rate=100, burst=100, patient=400, newest=100))
    world.write(b"a" * 99 + b"\n")
    world.look()
    world.write(b"b" * 1000 + b"c" * 100)
    world.look()  # nothing may be sent now, but it is known that the most of it never will be
    assert len(world.told()) == 100
    world.clock.now_s += 1
    world.look()
    assert world.told() == b"a" * 99 + b"\n" + gap_line(1000) + b"c" * 100


def test_a_worker_that_wrote_much_at_once_is_sent_in_full(tmp_path: Path) -> None:
    world = World(tmp_path, Pace(rate=100, burst=100, patient=400, newest=100))
    world.write(b"a" * 400)
    for _ in range(4):
        world.look()
        world.clock.now_s += 1
    assert world.told() == b"a" * 400


def test_one_look_is_bounded_and_every_worker_has_its_turn(tmp_path: Path) -> None:
    world = World(tmp_path, Pace(look=100, part=100))
    for worker in ("w1", "w2", "w3"):
        world.write(b"x" * 100, worker)
    seen = [part.worker for _ in range(3) for part in world.tail.look()]
    assert sorted(seen) == ["w1", "w2", "w3"]


def test_logs_that_have_ended_are_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    for worker in ("w1", "w2"):
        world.write(b"hello", worker)
    world.look()
    opened: list[str] = []

    def noting(top: Path, *names: str) -> int:
        opened.append(names[-1])
        return open_below(top, *names)

    monkeypatch.setattr("elastane.engines.nodes.log_tail.open_below", noting)
    world.look()
    world.write(b" again", "w2")
    world.look()
    assert {name for name in opened if name.endswith(".log")} == {"w2.log"}
    assert world.told("w2") == b"hello again"


def test_a_log_that_its_job_cuts_or_replaces_is_followed_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(b"one\n")
    world.look()
    world.log().write_bytes(b"2\n")
    world.look()
    fresh = world.log().with_name("fresh")
    fresh.write_bytes(b"three, and long\n")
    fresh.rename(world.log())
    world.look()
    assert world.told() == b"one\n2\nthree, and long\n"


def test_a_log_that_goes_and_comes_is_followed_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.write(b"one\n")
    world.look()
    world.log().unlink()
    assert world.tail.look() == []
    world.log().write_bytes(b"2")
    world.look()
    assert world.told() == b"one\n2"


def test_nothing_but_regular_logs_of_workers_is_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    logs, secret = world.node / "logs", tmp_path / "secret"
    secret.write_text("secret")
    (logs / "w1.log").symlink_to(secret)
    os.mkfifo(logs / "w2.log")
    (logs / "w3.log").mkdir()
    os.link(secret, logs / "w4.log")
    for name in ("w0.log", "nursery.log", "w5.log.1", "w١.log", "w5.txt", "w99999999.log"):
        (logs / name).write_text("no log of a worker")
    assert world.tail.look() == world.tail.rest() == []


def test_a_node_without_logs_has_nothing_to_tell(tmp_path: Path) -> None:
    assert LogTail(ATTEMPT, tmp_path / "nowhere").look() == []


@pytest.mark.parametrize("memory", ["", "[]", '{"w1": 1}', '{"w1": ["a"]}', '{"../x": [1]}', '{"w1": [1, 2]}'])
def test_junk_in_the_memory_of_a_tail_is_passed_over(memory: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.memory.write_text(memory)
    world.write(b"hello")
    world.new_node()
    world.look()
    assert world.told() == b"hello"


# The head.


def part(offset: int, data: bytes, attempt: str = ATTEMPT, worker: str = "w1") -> LogPart:
    return LogPart(attempt, worker, offset, data)


def test_parts_that_overlap_add_only_what_is_new(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert [world.head.append(part(*each)) for each in [(0, b"abc"), (1, b"bcd"), (0, b"ab"), (4, b"e")]] == [
        3,
        4,
        4,
        5,
    ]
    assert world.told() == b"abcde"


def test_a_head_that_died_while_it_wrote_goes_on_where_the_file_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.head.append(part(0, b"abc"))
    world.head.append(part(3, b"def"))
    world.new_head()
    assert world.head.offsets(ATTEMPT) == {"w1": 6}
    world.head.append(part(10, b"\n"))
    world.new_head()
    assert world.head.offsets(ATTEMPT) == {"w1": 11}
    assert world.head.offsets("j9.1") == world.head.offsets("junk") == {}
    assert world.told() == b"abcdef\n" + gap_line(4) + b"\n"


@pytest.mark.parametrize("point", ["before the line", "after the line"])
def test_a_gap_is_told_though_the_head_dies_beside_it(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.head.append(part(0, b"abc\n"))
    with monkeypatch.context() as patch:
        write = _dies(point)
        patch.setattr("elastane.engines.nodes.log_append._write_all", write)
        with pytest.raises(KeyboardInterrupt):
            world.head.append(part(10, b"def"))
    world.new_head()
    assert world.head.offsets(ATTEMPT) == {"w1": 4}
    world.head.append(part(10, b"def"))
    again = gap_line(6) if point == "after the line" else b""
    assert world.told() == b"abc\n" + again + gap_line(6) + b"def"


def _dies(point: str) -> object:
    def write(file: int, data: bytes) -> None:
        if point == "after the line":
            os.write(file, data)
        raise KeyboardInterrupt

    return write


def test_a_long_log_on_the_head_is_set_aside(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.new_head(longest_bytes=100)
    world.head.append(part(0, b"a" * 90))
    world.head.append(part(90, b"b" * 20))
    aside = world.layout.run("j1") / "logs" / "w1.log.1"
    assert aside.read_bytes() == b"a" * 90
    assert world.told().endswith(b"b" * 20)
    world.new_head(longest_bytes=1000)
    assert world.head.append(part(110, b"c")) == 111
    assert world.told().endswith(b"b" * 20 + b"c")


def test_a_log_that_somebody_cuts_on_the_head_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.head.append(part(0, b"abc"))
    (world.layout.run("j1") / "logs" / "w1.log").write_bytes(b"")
    world.head.append(part(3, b"def"))
    world.new_head()
    assert world.head.append(part(6, b"g")) == 7
    assert world.told() == b"defg"


def test_more_than_may_come_is_left_out_and_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.new_head(rate=10, burst=20)
    assert world.head.append(part(0, b"a" * 30)) == 20
    assert world.head.append(part(30, b"b" * 30)) == 20
    world.clock.now_s += 1
    assert world.head.append(part(60, b"c" * 10)) == 70
    assert world.told() == b"a" * 20 + b"\n" + gap_line(40) + b"c" * 10


def test_a_full_disk_loses_only_what_did_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tmp_path)
    world.head.append(part(0, b"abc"))

    def full(file: int, data: bytes) -> None:
        os.write(file, data[:1])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("elastane.engines.nodes.log_append._write_all", full)
        with pytest.raises(OSError, match="No space"):
            world.head.append(part(3, b"def"))
    assert world.head.offsets(ATTEMPT) == {"w1": 4}
    world.head.append(part(3, b"def"))
    assert world.told() == b"abcdef"


@pytest.mark.parametrize(
    "wrong",
    [
        part(0, b"x", attempt="../../etc.1"),
        part(0, b"x", attempt="j1"),
        part(0, b"x", attempt="j1.0"),
        part(0, b"x", attempt="j1/../j2.1"),
        part(0, b"x", attempt="j9.1"),
        part(0, b"x", worker="../w1"),
        part(0, b"x", worker="w1/../../x"),
        part(0, b"x", worker="nursery"),
        part(-1, b"x"),
        part(0, b"x" * (2 << 20)),
    ],
)
def test_hostile_parts_are_refused_and_write_nothing(wrong: LogPart, tmp_path: Path) -> None:
    world = World(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RefusedPartError):
        world.head.append(wrong)
    assert sorted(tmp_path.rglob("*")) == before


def traps(log: Path, secret: Path) -> Iterator[None]:
    log.symlink_to(secret)
    yield
    log.unlink()
    os.link(secret, log)
    yield
    log.unlink()
    os.mkfifo(log)
    yield
    log.unlink()
    log.mkdir()
    yield


def test_what_a_job_puts_in_place_of_a_log_is_not_written_to(tmp_path: Path) -> None:
    world = World(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for _ in traps(world.layout.run("j1") / "logs" / "w1.log", secret):
        world.new_head()
        with pytest.raises(RefusedPartError):
            world.head.append(part(0, b"x"))
    assert secret.read_text() == "secret"


def test_a_part_fits_a_line_and_comes_through_it() -> None:
    said = part(7, bytes(range(256)) * (PART_BYTES // 256))
    line = encode_message(said)
    assert len(line) < (64 << 10) + 200
    known = Line("a node", LogPart, LogOffsets)
    assert known.decode(line) == said
    assert known.decode(encode_message(LogOffsets(ATTEMPT, {"w1": 3}))) == LogOffsets(ATTEMPT, {"w1": 3})
    with pytest.raises(ValueError, match="log of a node"):
        known.decode(line.replace(b'"offset":7', b'"offset":-7'))


@pytest.mark.parametrize(
    ("attempt", "job"),
    [("j12.3", "j12"), ("j1.01", None), ("..1", None), ("a.b.1", None), ("j1.1\n", None), ("", None)],
)
def test_an_attempt_names_its_job(attempt: str, job: str | None) -> None:
    assert job_of(attempt) == job


def test_workers_are_known_by_their_names() -> None:
    assert [name for name in ("w1", "w10", "w0", "w", "W1", "w1 ", "w12345678") if is_worker(name)] == [
        "w1",
        "w10",
    ]


def test_a_budget_fills_with_time_and_no_further_than_its_burst() -> None:
    budget = Budget(10, 20, 0.0)
    assert budget.left(0.0) == 20
    budget.take(20)
    assert (budget.left(0.5), budget.left(1.0), budget.left(100.0)) == (5, 10, 20)
    assert budget.left(50.0) == 20  # a clock that is set back gives nothing and takes nothing
