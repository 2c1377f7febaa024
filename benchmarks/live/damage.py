"""Damaged stores: copies of a good one with bits flipped, ends cut off or parts blanked."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from benchmarks.live.promises import TENANT, Promises
from benchmarks.live.system import System
from elastane.service.home import DATABASE, TOKEN
from elastane.service.store import Store, StoreError

_BLOCK = 512


def sealed_home(home: Path) -> tuple[Path, Promises]:
    """A home that was shut down cleanly, with a good copy that has everything."""
    promises = Promises()
    with System(home, nodes=1, slots=1) as system:
        system.start()
        with system.client() as client:
            client.set_quota(TENANT, 0)
            promises.make(client, 20)
        system.end()
        system.start()  # a clean shutdown is copied at the next start
        system.end()
    return home, promises


def damaged_copy(home: Path, place: Path, chance: random.Random) -> Path:
    """Another home with the same store, damaged."""
    place.mkdir()
    for file in [*home.glob(f"{DATABASE}*"), home / TOKEN]:
        shutil.copy2(file, place / file.name)
    data = (place / DATABASE).read_bytes()
    worse = data
    while worse == data:  # blank over what was blank
        worse = _worse(data, chance)
    (place / DATABASE).write_bytes(worse)
    return place


def _worse(data: bytes, chance: random.Random) -> bytes:
    spot = chance.randrange(len(data))
    match chance.randrange(3):
        case 0:
            return data[:spot] + bytes([data[spot] ^ 1 << chance.randrange(8)]) + data[spot + 1 :]
        case 1:
            return data[:spot]
        case _:
            return data[:spot] + bytes(len(data[spot : spot + _BLOCK])) + data[spot + _BLOCK :]


def refusals_of(home: Path, folder: Path, positions: int, chance: random.Random) -> int:
    """How many of so many damaged copies are refused, and left as they are."""
    folder.mkdir()
    refused = 0
    for number in range(positions):
        place = damaged_copy(home, folder / str(number), chance)
        before = (place / DATABASE).read_bytes()
        try:
            Store.open(place / DATABASE).close()
        except StoreError as error:
            refused += "\n" not in str(error) and (place / DATABASE).read_bytes() == before
        shutil.rmtree(place)
    return refused
