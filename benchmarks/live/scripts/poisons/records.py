"""Files by which the service decides: closed to a job that runs as somebody else, open to one of the same user."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import time
from pathlib import Path

from benchmarks.live.scripts.poisons.place import (
    CONTROL,
    ENDED,
    MEMBERS,
    PLANS,
    Place,
    append,
    deed,
    put,
    replace,
)

_SPARSE = 2 << 30


def _sparse(path: Path) -> None:
    path.write_bytes(b"{")
    os.truncate(path, _SPARSE)


@deed
def members_of_wrong_types(place: Place) -> None:
    """Workers that are none."""
    for text in (
        '{"kind": 5, "workers": {"w1": {}}}',
        '{"workers": [1]}',
        '{"kind": [], "workers": {"": {"pid": 1e99}}}',
    ):
        put(place.attempt / MEMBERS, text)
        time.sleep(0.3)


@deed
def deep_members(place: Place) -> None:
    """Workers in workers."""
    put(place.attempt / MEMBERS, "[" * 200_000)


@deed
def huge_members(place: Place) -> None:
    """Two gigabytes of workers, then a pipe."""
    replace(place.attempt / MEMBERS, _sparse)
    time.sleep(0.5)
    replace(place.attempt / MEMBERS, os.mkfifo)


@deed
def many_members(place: Place) -> None:
    """A hundred thousand workers, one of them the first process of the machine."""
    workers = {f"w{i}": {"pid": 1, "node": f"n{i}", "phase": "member"} for i in range(100_000)}
    put(place.attempt / MEMBERS, json.dumps({"kind": "adaptive", "workers": workers}))


@deed
def forged_end(place: Place) -> None:
    """An end of its own making; the job goes on."""
    put(place.attempt / ENDED, json.dumps({"cause": "finished", "detail": "", "code": 0, "at_s": time.time()}))


@deed
def ends_of_wrong_types(place: Place) -> None:
    """Ends that cannot be read."""
    texts = ("{}", "[]", "[" * 200_000, '{"cause": "nonsense", "detail": [], "code": "x", "at_s": "y"}')
    more = (
        '{"cause": "finished", "detail": "", "code": 0, "at_s": 1e400}',
        json.dumps({"cause": "failed", "detail": "\udce9", "code": 2**70, "at_s": -1e300}),
    )
    for text in (*texts, *more):
        put(place.attempt / ENDED, text)
        time.sleep(0.2)


@deed
def end_that_is_a_folder(place: Place) -> None:
    """Nothing can be written where a folder stands."""
    (place.attempt / ENDED / "deep" / "er").mkdir(parents=True)


@deed
def end_that_is_a_pipe(place: Place) -> None:
    """Whoever opens it waits."""
    replace(place.attempt / ENDED, os.mkfifo)


@deed
def control_of_wrong_types(place: Place) -> None:
    """Nobody can be asked there."""
    for text in (
        '{"host": [], "port": {}, "token": 5}',
        "[" * 200_000,
        '{"host": "x", "port": 99999999}',
        "{}",
    ):
        put(place.records / CONTROL, text)
        time.sleep(0.3)


def _lead_to(place: Place, answer: bytes) -> None:
    """Have the service ask a port of ours, which says this to everybody, for ever."""
    server = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        server.settimeout(60.0)
        kept = []
        while True:
            kept.append(server.accept()[0])
            for _ in range(200):
                if answer:
                    kept[-1].sendall(answer)
    put(
        place.records / CONTROL,
        json.dumps({"host": "127.0.0.1", "port": server.getsockname()[1], "token": "x", "pid": os.getpid()}),
    )


@deed
def control_that_is_silent(place: Place) -> None:
    """A port that takes calls and never answers."""
    _lead_to(place, b"")


@deed
def control_that_talks(place: Place) -> None:
    """A port that answers with a line without end."""
    _lead_to(place, b"x" * (1 << 20))


@deed
def control_of_another(place: Place) -> None:
    """The service is sent to the first process of the machine, and to its own port."""
    url = (place.home / "url").read_text().strip()
    put(
        place.records / CONTROL,
        json.dumps({"host": "127.0.0.1", "port": int(url.rpartition(":")[2]), "token": "x", "pid": 1}),
    )


@deed
def plans_of_wrong_types(place: Place) -> None:
    """A log of plans that no coordinator wrote."""
    lines = (
        b"[]",
        b"5",
        {"type": "spawn"},
        {"type": "plan", "plan": 5},
        {"type": "plan", "plan": {"generation": 10**300}},
    )
    append(
        place.records / PLANS,
        [*lines, b"[" * 200_000, b"\xff\xfe", {"type": "plan", "plan": {"members": [[]]}}],
    )


@deed
def huge_plans(place: Place) -> None:
    """Two gigabytes of plans, then a pipe."""
    path = place.records / PLANS
    os.truncate(path, _SPARSE)
    time.sleep(1.0)
    replace(path, os.mkfifo)


@deed
def launch_of_wrong_types(place: Place) -> None:
    """What was launched, in other words."""
    put(place.attempt / "launch.json", '{"attempt": 5, "command": {}, "records": "/"}')


@deed
def taken_lock(place: Place) -> None:
    """The lock of the attempt, wanted by the job itself: it gets it when its supervisor ends."""
    if os.fork() == 0:
        place.own_up(os.getpid())
        os.setsid()
        file = os.open(place.attempt / "lock", os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(600.0)
        os._exit(0)


@deed
def lock_that_is_a_folder(place: Place) -> None:
    """A lock that nobody can take."""
    (place.attempt / "lock").unlink()
    (place.attempt / "lock").mkdir()


@deed
def no_lock(place: Place) -> None:
    """No lock, so that two might think they have it."""
    (place.attempt / "lock").unlink()


@deed
def lock_that_is_a_pipe(place: Place) -> None:
    """Whoever opens it waits."""
    replace(place.attempt / "lock", os.mkfifo)


@deed
def no_attempt(place: Place) -> None:
    """The attempt's folder, renamed."""
    place.attempt.rename(place.records / "elsewhere")


@deed
def no_records(place: Place) -> None:
    """Nothing is left of what the service wrote down."""
    shutil.rmtree(place.records)


@deed
def records_that_are_a_file(place: Place) -> None:
    """A file where the folder was."""
    shutil.rmtree(place.records)
    place.records.write_text("no folder")


@deed
def closed_records(place: Place) -> None:
    """Folders that nobody may enter (but root)."""
    place.attempt.chmod(0)
    place.records.chmod(0)
