"""The store through the control plane: crashes at every durable write, a full disk, damage at many places."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.harness import Bench
from benchmarks.live.damage import damaged_copy, refusals_of, sealed_home
from benchmarks.live.promises import TENANT, Promises
from benchmarks.live.system import UP, System, until
from benchmarks.train.live import environment
from elastane.errors import ElastaneError
from elastane.service.home import DATABASE
from elastane.service.store import Store

_WRITES = (
    "transaction: begun",
    "transaction: inside",
    "transaction: before commit",
    "transaction: after commit",
)
_COPIES = ("copy: written", "file: before rename", "file: after rename", "seal: broken")
_PASSES = {
    **dict.fromkeys(_WRITES, 15),
    "copy: written": 1,
    "file: before rename": 2,
    "file: after rename": 2,
    "seal: broken": 1,
}
"""How often each place is passed at least, in one life as it is lived here."""
_FIRST = ("create: before link", "migration: inside", "migration: before commit", "migration: after commit")


def store(bench: Bench) -> None:
    """One after the other."""
    _crashes(bench)
    _first_starts(bench)
    _full_disk(bench)
    _damage(bench)


def _failing(point: str, nth: int) -> Sequence[str]:
    return ("-m", "benchmarks.live.failing", point, str(nth))


def _crashes(bench: Bench) -> None:
    """A kill at each failpoint of a life: opening, serving, leaving."""
    times, chance = bench.count(20, 1), random.Random(bench.seed)
    promises, died = Promises(), 0
    with System(bench.folder / "crashes", nodes=1, slots=1) as system:
        system.start()
        with system.client() as client:
            client.set_quota(TENANT, 0)
        system.end()
        for _ in range(times):
            for point in chance.sample([*_WRITES, *_COPIES], len(_WRITES) + len(_COPIES)):
                if point not in _WRITES:  # these places are passed only after a clean shutdown
                    system.start()
                    system.end()
                died += _one_life(system, _failing(point, chance.randint(1, _PASSES[point])), promises)
        system.start()
        with system.client() as client:
            promises.check(client, whole=True)
        system.end()
    bench.figures.note(
        f"{len(promises.taken)} submissions and {len(promises.cancelled)} cancellations were acknowledged"
    )
    lives = times * len(_PASSES)
    bench.figures.at_least(f"store, failpoints: of {lives} lives, ended there", died, lives, "gate")
    _judge(bench, "failpoints", promises)


def _one_life(system: System, program: Sequence[str], promises: Promises) -> bool:
    """Whether it was killed on its way."""
    process = system.launch(program)
    until(lambda: system.serves(process) or process.poll() is not None, "a control plane")
    if process.poll() is None:
        try:
            with system.client(timeout_s=2.0) as client:
                promises.check(client)
                promises.make(client, 8)
        except ElastaneError:
            until(lambda: process.poll() is not None, "the end of a control plane that does not answer", 30.0)
    return (system.end() if process.poll() is None else process.returncode) == -9


def _judge(bench: Bench, name: str, promises: Promises) -> None:
    for words in promises.broken[:5]:
        bench.figures.note(words)
    bench.figures.at_most(f"store, {name}: promises broken", len(promises.broken), 0, "gate")


def _first_starts(bench: Bench) -> None:
    """A kill while the store is made for the first time: the next start makes it, or finds it whole."""
    broken, times = 0, bench.count(20, 1)
    for point in _FIRST:
        for number in range(times):
            with System(bench.folder / f"first-{_FIRST.index(point)}-{number}", nodes=1, slots=1) as system:
                process = system.launch(_failing(point, 1 + number % 3 if point.endswith("inside") else 1))
                until(lambda: process.poll() is not None, f"the end at {point!r}")  # noqa: B023
                broken += process.returncode != -9 or not _opens(system.home)
    bench.figures.at_most("store, first start: homes that a crash made useless", broken, 0, "gate")


def _opens(home: Path) -> bool:
    try:
        found = Store.open(home / DATABASE)
        found.claim()
        found.close()
    except ElastaneError:
        return False
    return True


def _full_disk(bench: Bench) -> None:
    """A disk of its own, filled to the brim while jobs come in."""
    disk = bench.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "elastane-bench", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        bench.figures.note("full disk: NOT MEASURED, mounting one takes rights that are not there")
        return
    try:
        with System(disk / "home", nodes=1, slots=1) as system:
            _fill_up(bench, system, disk / "filler")
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=False)


def _fill_up(bench: Bench, system: System, filler: Path) -> None:
    promises = Promises()
    system.start()
    with system.client(timeout_s=5.0) as client:
        client.set_quota(TENANT, 0)
        promises.make(client, 5)
        free = shutil.disk_usage(filler.parent).free
        with filler.open("wb") as file:
            file.write(bytes(max(0, free - 300_000)))
        words = _refusal(lambda: promises.make(client, 2000, padding=20_000))
    bench.figures.note(f"on a full disk: {words}")
    bench.figures.at_most("store, full disk: refusals without the reason", "space" not in words, 0, "gate")
    filler.unlink()
    system.kill()
    system.start()
    with system.client() as client:
        promises.check(client, whole=True)
        promises.make(client, 3)
        promises.check(client)
    system.end()
    _judge(bench, "full disk", promises)


def _refusal(what: Callable[[], object]) -> str:
    try:
        what()
    except ElastaneError as error:
        return str(error)
    return "nothing was refused"


def _damage(bench: Bench) -> None:
    """Refused in one line, left as it is, and back from the good copy."""
    home, promises = sealed_home(bench.folder / "sealed")
    chance = random.Random(bench.seed)
    wrong, restored = list[str](), 0
    times = bench.count(60, 4)
    for number in range(times):
        place = damaged_copy(home, bench.folder / f"damaged-{number}", chance)
        before = (place / DATABASE).read_bytes()
        said = subprocess.run(
            [sys.executable, *UP, f"--home={place}", "--nodes=1", "--slots=1"],
            env=environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        lines = said.stderr.strip().splitlines()
        told = len(lines) == 1 and lines[0].startswith("error: ") and "--restore" in lines[0]
        if not told or said.returncode != 2 or (place / DATABASE).read_bytes() != before:
            wrong.append(f"exit code {said.returncode}: {' / '.join(lines[-3:])}")
        if number % 6 == 0:
            restored += 1
            with System(place, nodes=1, slots=1) as system:
                system.start(["--restore"])
                with system.client() as client:
                    promises.check(client, whole=True)
                system.end()
    for words in wrong[:5]:
        bench.figures.note(words)
    bench.figures.at_most(f"store, damage: of {times}, not refused in one line", len(wrong), 0, "gate")
    bench.figures.note(f"{restored} of them were restored with 'elastane up --restore'")
    _judge(bench, "restored", promises)
    positions = bench.count(1000, 100)
    taken = positions - refusals_of(home, bench.folder / "positions", positions, chance)
    bench.figures.at_most(f"store, damage: of {positions:,} positions, taken for good", taken, 0, "gate")
