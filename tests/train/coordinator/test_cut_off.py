"""Workers whose way is cut off, while all may be well with them, have a lease to come back; others are lost at once."""

from __future__ import annotations

from pathlib import Path

from train.coordinator.test_leases import Line, Lines, _tell


async def started(lines: Lines) -> tuple[Line, Line]:
    """The fork server of a node and its worker."""
    fork_server = await lines.fork_server("n1")
    await fork_server.hear("spawn")
    fork_server.say(type="started", worker="w1", pid=1)
    worker = await lines.worker("w1")
    await lines.until(lambda: "w1" in lines.server._workers)
    return fork_server, worker


async def leave(lines: Lines, *leaving: Line) -> None:
    for line in leaving:
        line.writer.close()
    await lines.until(lambda: "n1" not in lines.server.fork_servers and "w1" not in lines.server._workers)


def test_a_worker_whose_way_is_cut_off_may_come_back(tmp_path: Path) -> None:
    async def story(lines: Lines) -> None:
        lines.server._ends.lease_s, lines.server._ends.cut_off = 1000.0, lambda node: node == "n1"
        first = await started(lines)
        await leave(lines, *first)
        assert lines.coordinator.workers["w1"].alive
        assert set(lines.server._ends.left) == {"node n1", "w1"}
        again = await lines.fork_server("n1", pids={"w1": 1}), await lines.worker("w1")
        await lines.until(lambda: "n1" in lines.server.fork_servers and "w1" in lines.server._workers)
        assert lines.coordinator.workers["w1"].alive
        assert not lines.server._ends.left
        await leave(lines, *again)

    _tell(tmp_path, story, workers=1)


def test_one_that_does_not_come_back_in_time_is_lost(tmp_path: Path) -> None:
    async def story(lines: Lines) -> None:
        lines.server._ends.cut_off = lambda _: True
        await leave(lines, *await started(lines))
        await lines.until(lambda: not lines.coordinator.workers["w1"].alive)

    _tell(tmp_path, story, workers=1)


def test_the_end_of_an_earlier_cut_means_nothing_in_a_later_one(tmp_path: Path) -> None:
    async def story(lines: Lines) -> None:
        lines.server._ends.lease_s, lines.server._ends.cut_off = 1000.0, lambda _: True
        await leave(lines, *await started(lines))
        before = list(lines.server._ends.left.values())
        fork_server, worker = await lines.fork_server("n1", pids={"w1": 1}), await lines.worker("w1")
        await lines.until(lambda: "n1" in lines.server.fork_servers and "w1" in lines.server._workers)
        await leave(lines, fork_server, worker)
        for peer in before:
            lines.server._ends.still_lost(peer)
        assert lines.coordinator.workers["w1"].alive
        for peer in list(lines.server._ends.left.values()):
            lines.server._ends.still_lost(peer)
        assert not lines.coordinator.workers["w1"].alive

    _tell(tmp_path, story, workers=1)


def test_without_a_cut_the_end_of_both_lines_is_the_end(tmp_path: Path) -> None:
    async def story(lines: Lines) -> None:
        lines.server._ends.lease_s = 1000.0
        await leave(lines, *await started(lines))
        await lines.until(lambda: not lines.coordinator.workers["w1"].alive)

    _tell(tmp_path, story, workers=1)
