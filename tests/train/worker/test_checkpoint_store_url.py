"""Checkpoints at URLs: whole or not at all under every damage, hostile things passed over, later generations win."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from elastane.train.errors import PlaceAway, TrainError
from elastane.train.worker import checkpoint_store_url
from elastane.train.worker.checkpoint_store_names import Claim, Listing, sealed
from elastane.train.worker.checkpoint_store_objects import FolderObjects, StoreAway, open_objects
from elastane.train.worker.checkpoint_store_url import UrlCheckpointStore
from elastane.train.worker.state_codec import Packed, pack, unpack

UNIQUE = "0" * 32


def state(step: int, size: int = 3) -> Packed:
    return pack({"step": step, "weights": torch.full((size,), float(step)), "rng": (step, None, b"x")})


def save(store: UrlCheckpointStore, step: int, generation: int = 1) -> str:
    return store.save(step, state(step), {"step": step}, generation)


def step_of(store: UrlCheckpointStore) -> int:
    """Of what is loaded, after making sure that all of it belongs to one step."""
    loaded = store.load()
    assert loaded is not None
    content = unpack(loaded.packed)
    assert content["step"] == loaded.step == loaded.info["step"]
    assert torch.equal(content["weights"], torch.full_like(content["weights"], float(loaded.step)))
    return loaded.step


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


def at(place: Path, keep: int = 2) -> UrlCheckpointStore:
    return UrlCheckpointStore(FolderObjects(place), str(place), keep, sleep=lambda _s: None)


def test_an_empty_or_missing_place_holds_nothing(place: Path) -> None:
    assert at(place).load() is None
    assert at(place).highest() == 0
    place.mkdir()
    assert at(place).load() is None


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_is_read_and_the_oldest_go_with_their_parts(place: Path, keep: int) -> None:
    store = at(place, keep)
    store.own(1)
    for step in range(6):
        save(store, step)
        assert step_of(at(place)) == step
    assert len(list(place.iterdir())) == 3 * keep + 1


def test_in_the_memory_of_this_process_it_works_alike() -> None:
    store = UrlCheckpointStore(open_objects("memory://test_checkpoint_store_url/x"), "memory")
    store.own(2)
    save(store, 5, 2)
    again = UrlCheckpointStore(open_objects("memory://test_checkpoint_store_url/x"), "memory")
    assert again.highest() == 2
    assert step_of(again) == 5


def test_a_step_is_found_by_its_number_and_a_missing_one_is_named(place: Path) -> None:
    store = at(place)
    save(store, 1)
    save(store, 2)
    loaded = store.load(step=1)
    assert loaded is not None
    assert loaded.step == 1
    with pytest.raises(TrainError, match="no checkpoint of step 7"):
        store.load(step=7)


def test_after_going_back_the_new_history_counts(place: Path) -> None:
    store = at(place)
    for step in (100, 110, 105):
        save(store, step)
    assert step_of(store) == 105


def test_views_and_odd_layouts_and_many_parts_come_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_store_url, "PART_BYTES", 20)
    base = torch.arange(6.0)
    parts = {
        "all": base,
        "part": base[2:],
        "turned": base.view(2, 3).t(),
        "none": torch.empty(0),
        "dot": base[0],
    }
    store = at(place)
    store.save(1, pack(parts), {})
    assert len(list(place.glob("*.tensors-*"))) > 2
    loaded = store.load()
    assert loaded is not None
    assert all(torch.equal(value, parts[name]) for name, value in unpack(loaded.packed).items())


@pytest.mark.parametrize(("step", "generation"), [(-1, 0), (10**12, 0), (1, -1), (1, 2**53)])
def test_impossible_numbers_are_refused(place: Path, step: int, generation: int) -> None:
    with pytest.raises(TrainError, match=f"step {step} and generation {generation}"):
        at(place).save(step, state(1), {}, generation)


# Damage.


def parts_of(place: Path, name: str) -> list[Path]:
    return sorted(place.glob(name.replace(".manifest", ".*")))


@pytest.mark.parametrize("part", [0, 1, 2], ids=["manifest", "tensors", "tree"])
def test_what_is_cut_flipped_or_missing_anywhere_is_passed_over_and_named(place: Path, part: int) -> None:
    store = at(place)
    save(store, 1)
    path = parts_of(place, save(store, 2))[part]
    good = path.read_bytes()
    for bad in (
        b"",
        good[:-1],
        good[: len(good) // 2],
        good[:-2] + bytes([good[-2] ^ 1]) + good[-1:],
        good * 2,
    ):
        path.write_bytes(bad)
        assert step_of(store) == 1
        assert len(store.skipped) == 1
    path.unlink()
    assert step_of(store) == 1
    path.write_bytes(good)
    assert step_of(store) == 2


def test_a_flip_of_any_byte_is_noticed(place: Path) -> None:
    store = at(place)
    save(store, 1)
    for path in parts_of(place, save(store, 2)):
        good = path.read_bytes()
        for at_byte in range(0, len(good), max(1, len(good) // 40)):
            path.write_bytes(good[:at_byte] + bytes([good[at_byte] ^ 0x20]) + good[at_byte + 1 :])
            assert step_of(store) == 1, (path.name, at_byte)
        path.write_bytes(good)


def test_when_all_are_bad_every_reason_is_told(place: Path) -> None:
    store = at(place)
    for name in (save(store, 1), save(store, 2)):
        parts_of(place, name)[1].write_bytes(b"x")
    with pytest.raises(
        TrainError, match=r"no checkpoint in .* can be read: .*torn or changed; .*torn or changed"
    ):
        store.load()


def test_a_torn_newest_does_not_push_out_the_good_ones(place: Path) -> None:
    store = at(place, keep=1)
    save(store, 1)
    torn = save(at(place, keep=9), 2)
    parts_of(place, torn)[1].write_bytes(b"x")
    good = save(at(place, keep=2), 3)
    parts_of(place, good)[1].unlink()
    assert step_of(at(place)) == 1


def test_a_save_that_fails_leaves_nothing_and_the_older_ones(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = at(place)
    save(store, 1)
    before = {path.name for path in place.iterdir()}

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for broken in ("put", "put_part"):
        with monkeypatch.context() as patch:
            patch.setattr(store._objects, broken, full)
            with pytest.raises(TrainError, match=r"cannot save step 2 to .*: No space left on device"):
                save(store, 2)
        assert {path.name for path in place.iterdir()} == before
    assert step_of(store) == 1


def test_trouble_with_reading_is_no_reason_to_go_back_further(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = at(place)
    save(store, 1)
    save(store, 2)

    def broken(*_: Any) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(store._objects, "get", broken)
    with pytest.raises(TrainError, match=r"cannot read .*: Input/output error"):
        store.load()


def test_a_service_that_does_not_answer_is_told_apart_from_a_full_disk(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = at(place)

    def away(*_: Any) -> None:
        raise StoreAway("EndpointConnectionError: at https://me:pw@host")

    monkeypatch.setattr(store._objects, "put", away)
    with pytest.raises(
        PlaceAway, match=r"cannot save step 2 to .*: EndpointConnectionError: at https://…@host$"
    ):
        save(store, 2)
    assert at(place).load() is None


# Hostile.


def put(place: Path, name: str, content: Any) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    (place / name).write_bytes(body + b"\n%d\n" % zlib.crc32(body))


def manifest(**changes: Any) -> dict[str, Any]:
    return {"format": 2, "step": 9, "generation": 9, "serial": 9, "info": {}, "parts": [], **changes}


NINE = f"checkpoint-{9:016d}-{9:016d}-{UNIQUE}"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b"null",
        manifest(),
        manifest(format=1),
        manifest(step=-1),
        manifest(step=1e400),
        manifest(generation=8),
        manifest(parts=[{"name": "../../etc/passwd", "bytes": 10, "crc32": 0}]),
        manifest(parts=[{"name": f"{NINE}.tree", "bytes": 2**50, "crc32": 0}]),
        manifest(parts=[{"name": f"{NINE}.tree", "bytes": -1, "crc32": 0}]),
        manifest(parts=[{"name": f"{NINE}.tree", "bytes": 1, "crc32": 0}] * 20_000),
        manifest(info=[]),
        {"x": "y" * 2_000_000},
    ],
    ids=range(15),
)
def test_a_manifest_that_is_nonsense_is_passed_over_and_named(place: Path, content: Any) -> None:
    store = at(place)
    save(store, 1)
    put(place, f"{NINE}.manifest", content)
    assert step_of(store) == 1
    assert len(store.skipped) == 1
    assert len(store.skipped[0]) < 400


@pytest.mark.parametrize("tree", [b"[" * 100_000, b"nothing", b"\xff"])
def test_parts_that_are_nonsense_are_passed_over(place: Path, tree: bytes) -> None:
    store = at(place)
    save(store, 1)
    (place / f"{NINE}.tree").write_bytes(tree)
    put(
        place,
        f"{NINE}.manifest",
        manifest(parts=[{"name": f"{NINE}.tree", "bytes": len(tree), "crc32": zlib.crc32(tree)}]),
    )
    assert step_of(store) == 1


def test_tensors_that_are_nonsense_or_twice_there_are_passed_over(place: Path) -> None:
    store = at(place)
    save(store, 1)
    name = save(store, 2)
    good = (place / name.replace(".manifest", ".tensors-0000")).read_bytes()
    for tensors in ([b"\xff" * 100], [good, good]):
        tree = b"null"
        (place / f"{NINE}.tree").write_bytes(tree)
        parts = [{"name": f"{NINE}.tree", "bytes": 4, "crc32": zlib.crc32(tree)}]
        for number, data in enumerate(tensors):
            part = f"{NINE}.tensors-{number:04d}"
            (place / part).write_bytes(data)
            parts.append({"name": part, "bytes": len(data), "crc32": zlib.crc32(data)})
        put(place, f"{NINE}.manifest", manifest(parts=parts))
        assert step_of(store) == 2
        assert len(store.skipped) == 1


def test_links_to_a_good_checkpoint_are_none(place: Path, tmp_path: Path) -> None:
    save(at(tmp_path / "other"), 7)
    store = at(place)
    save(store, 1)
    for path in (tmp_path / "other").iterdir():
        (place / path.name.replace("-0000000000000001-", "-0000000000000009-", 1)).symlink_to(path)
    assert step_of(store) == 1


def test_names_that_are_none_of_ours_mean_nothing(place: Path) -> None:
    place.mkdir()
    for name in (
        "checkpoint-1-1-x.manifest",
        f"checkpoint-{'9' * 16}-{1:016d}-{UNIQUE}.manifest",
        "claim-",
        "x",
    ):
        (place / name).write_bytes(b"")
    (place / f"claim-{'9' * 16}-{UNIQUE}").write_bytes(b"")
    assert at(place).highest() == 0
    assert at(place).load() is None


def test_a_claim_that_is_nonsense_decides_nothing(place: Path) -> None:
    store = at(place)
    save(store, 1)
    (place / f"claim-{3:016d}-{UNIQUE}").write_bytes(b"[" * 2_000_000)
    put(place, f"claim-{2:016d}-{UNIQUE}", {"known": ["x"] * 100_000})
    assert store.highest() == 3
    assert step_of(at(place)) == 1


# Generations.


def test_who_restores_owns_the_place_before_it_reads(place: Path) -> None:
    save(at(place), 1, generation=4)
    with pytest.raises(TrainError, match=r"a newer generation \(4\) owns this place"):
        at(place).own(3)
    owner = at(place)
    owner.own(5)
    owner.own(5)
    assert step_of(owner) == 1
    with pytest.raises(TrainError, match="another generation 5 owns this place"):
        at(place).own(5)
    with pytest.raises(TrainError, match=r"a newer generation \(5\) owns this place"):
        save(at(place), 2, generation=4)
    assert step_of(at(place)) == 1
    assert len([path for path in place.iterdir() if path.name.startswith("claim")]) == 1


def test_a_member_whose_save_takes_long_while_others_come_is_no_stranger(place: Path) -> None:
    """A change of members makes a new generation, but no claim: its leader of before saves the same history."""
    slow, next_leader = at(place), at(place)
    slow.own(1)
    save(next_leader, 12, generation=2)
    save(slow, 10, generation=1)
    assert step_of(at(place)) == 12
    save(next_leader, 13, generation=2)
    save(next_leader, 14, generation=2)
    assert len([path for path in place.iterdir() if path.suffix == ".manifest"]) == 2


def test_of_nothing_but_parts_the_generation_is_known(place: Path) -> None:
    place.mkdir()
    (place / f"{NINE}.tree").write_bytes(b"x")
    assert at(place).highest() == 9
    assert at(place).load() is None
    store = at(place)
    store.own(10)
    save(store, 1, 10)
    assert not (place / f"{NINE}.tree").exists()


def test_an_undecided_claim_of_a_crash_is_passed_over(place: Path) -> None:
    save(at(place), 1, generation=1)
    put(place, f"claim-{2:016d}-{UNIQUE}", b"{}")
    assert sealed(Claim()).startswith(b'{"known":null}')
    store = at(place)
    store.own(3)
    assert step_of(store) == 1


def test_a_place_that_never_shows_what_was_written_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = at(place)
    monkeypatch.setattr(store._objects, "sizes", dict)
    with pytest.raises(TrainError, match="does not list what was written there 120 s ago"):
        store.own(1)


def test_a_list_says_who_was_there() -> None:
    listing = Listing.of({f"{NINE}.manifest": 1, f"claim-{4:016d}-{UNIQUE}": 1, "checkpoint-of-mine": 2})
    assert (listing.highest, listing.established, listing.claimed) == (9, 9, 4)
