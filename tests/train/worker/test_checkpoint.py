"""Checkpoints: whole or not at all under every damage and every crash, and never from a generation that was fenced."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elastane.train.errors import TrainError
from elastane.train.worker import checkpoint
from elastane.train.worker.checkpoint import FolderCheckpointStore, Loaded
from elastane.train.worker.state_codec import Packed, pack, unpack

FILES = ("tensors.safetensors", "tree.json", "manifest.json")
FORK = multiprocessing.get_context("fork")


def state(step: int, size: int = 3) -> Packed:
    return pack({"step": step, "weights": torch.full((size,), float(step)), "rng": (step, None, b"x")})


def consistent(loaded: Loaded | None, size: int = 3) -> int:
    """The step of a checkpoint, after making sure that all of its content belongs to that step."""
    assert loaded is not None
    content = unpack(loaded.packed)
    assert content["step"] == loaded.step == loaded.info["step"]
    assert content["rng"] == (loaded.step, None, b"x")
    assert torch.equal(content["weights"], torch.full((size,), float(loaded.step)))
    return loaded.step


def save(store: FolderCheckpointStore, step: int, generation: int = 0, size: int = 3) -> Path:
    return store.save(step, state(step, size), {"step": step}, generation=generation)


@pytest.fixture
def store(tmp_path: Path) -> FolderCheckpointStore:
    return FolderCheckpointStore(tmp_path / "checkpoints")


def hidden(store: FolderCheckpointStore) -> list[str]:
    return [path.name for path in store.directory.iterdir() if path.name.startswith(".")]


def test_an_empty_or_missing_directory_holds_nothing(store: FolderCheckpointStore) -> None:
    assert store.load() is None
    store.directory.mkdir()
    assert store.load() is None
    assert store.steps() == []


def test_the_newest_is_loaded_and_the_oldest_removed(store: FolderCheckpointStore) -> None:
    paths = [save(store, step) for step in (1, 2, 3)]
    assert paths[-1].name == "step-000000000003"
    assert store.steps() == [2, 3]
    assert consistent(store.load()) == 3
    assert consistent(store.load(step=2)) == 2
    assert not hidden(store)


def test_a_step_that_is_not_there_is_named(store: FolderCheckpointStore) -> None:
    save(store, 1)
    with pytest.raises(TrainError, match=r"no checkpoint of step 7 .* only \[1\]"):
        store.load(step=7)


@pytest.mark.parametrize(("step", "generation"), [(-1, 0), (10**12, 0), (1, -1)])
def test_impossible_numbers_are_refused(store: FolderCheckpointStore, step: int, generation: int) -> None:
    with pytest.raises(TrainError, match=f"step {step} and generation {generation}"):
        save(store, step, generation)


def test_at_least_one_is_kept(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="1 or more, not 0"):
        FolderCheckpointStore(tmp_path, keep=0)


@pytest.mark.parametrize("keep", [1, 2])
def test_saving_a_step_again_replaces_it(tmp_path: Path, keep: int) -> None:
    store = FolderCheckpointStore(tmp_path, keep)
    save(store, 4)
    for attempt in range(4):
        store.save(5, state(5), {"attempt": attempt})
        loaded = store.load()
        assert loaded is not None
        assert loaded.info == {"attempt": attempt}
        assert store.steps() == [4, 5][2 - keep :]
        assert len(list(tmp_path.iterdir())) == keep


def test_after_going_back_the_new_history_counts(store: FolderCheckpointStore) -> None:
    for step in (100, 110, 105):
        save(store, step)
    assert consistent(store.load()) == 105
    save(store, 108)
    assert store.steps() == [105, 108]


def test_loaded_tensors_live_without_the_file(store: FolderCheckpointStore) -> None:
    path = save(store, 1)
    loaded = store.load()
    assert loaded is not None
    with (path / FILES[0]).open("r+b") as file:
        file.write(b"\0" * (path / FILES[0]).stat().st_size)
    shutil.rmtree(path)
    assert consistent(loaded) == 1
    unpack(loaded.packed)["weights"].add_(1)


def test_views_of_one_memory_and_odd_layouts_are_saved(store: FolderCheckpointStore) -> None:
    base = torch.arange(6.0)
    parts = {
        "all": base,
        "part": base[2:],
        "turned": base.view(2, 3).t(),
        "none": torch.empty(0),
        "dot": base[0],
    }
    store.save(1, pack(parts), {})
    loaded = store.load()
    assert loaded is not None
    assert all(torch.equal(value, parts[name]) for name, value in unpack(loaded.packed).items())


def test_a_state_without_tensors_is_saved(store: FolderCheckpointStore) -> None:
    store.save(1, pack({"epoch": 3}), {})
    loaded = store.load()
    assert loaded is not None
    assert unpack(loaded.packed) == {"epoch": 3}


@pytest.mark.parametrize("info", [{"a": object()}, {"a": float("nan")}, {(1, 2): 3}])
def test_info_that_is_not_json_is_refused_before_anything_is_written(
    store: FolderCheckpointStore, info: Any
) -> None:
    with pytest.raises(TrainError, match="info of a checkpoint must be JSON"):
        store.save(1, state(1), info)
    assert not store.directory.exists()


# Damage


def damaged(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_at_any_byte_is_passed_over(store: FolderCheckpointStore, name: str) -> None:
    save(store, 1)
    file = save(store, 2) / name
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert consistent(store.load()) == 1, length
        assert [reason.split(":")[0] for reason in store.skipped] == ["step-000000000002"]
    file.write_bytes(whole + b" ")
    assert consistent(store.load()) == 1
    file.write_bytes(whole)
    assert consistent(store.load()) == 2
    assert store.skipped == []


@pytest.mark.parametrize("name", FILES)
def test_a_flip_of_any_byte_is_noticed(store: FolderCheckpointStore, name: str) -> None:
    save(store, 1)
    file = save(store, 2) / name
    whole = file.read_bytes()
    for position, byte in enumerate(whole):
        flipped = byte ^ (1 << position % 8)
        file.write_bytes(whole[:position] + bytes([flipped]) + whole[position + 1 :])
        assert consistent(store.load()) == 1, position


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_passed_over_and_named(store: FolderCheckpointStore, name: str) -> None:
    save(store, 1)
    (save(store, 2) / name).unlink()
    assert consistent(store.load()) == 1
    assert name in store.skipped[0]


def test_another_format_is_passed_over_and_named(
    store: FolderCheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store, 1)
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "FORMAT", 99)
        save(store, 2)
    assert consistent(store.load()) == 1
    assert store.skipped == ["step-000000000002: its format is 99, not 1"]


def test_a_sealed_manifest_of_something_else_is_passed_over(store: FolderCheckpointStore) -> None:
    save(store, 1)
    foreign = {"format": 1, "files": {}}
    seal = zlib.crc32(json.dumps(foreign, separators=(",", ":")).encode())
    path = save(store, 2) / "manifest.json"
    path.write_bytes(json.dumps({**foreign, "crc32": seal}, separators=(",", ":")).encode())
    assert consistent(store.load()) == 1


def test_when_all_are_bad_every_reason_is_told(store: FolderCheckpointStore) -> None:
    for step in (1, 2):
        damaged(save(store, step) / "tree.json", lambda raw: raw[:-1])
    with pytest.raises(TrainError, match=r"step-000000000002: tree.json is torn.*step-000000000001: tree.json"):
        store.load()


def test_a_bad_newest_does_not_push_out_the_good_ones(tmp_path: Path) -> None:
    store = FolderCheckpointStore(tmp_path, keep=1)
    damaged(save(store, 9) / "manifest.json", lambda raw: raw[:-1])
    save(store, 5)
    assert consistent(store.load()) == 5
    assert store.steps() == [5]


def test_leftovers_of_a_crash_are_ignored_and_then_removed(store: FolderCheckpointStore) -> None:
    path = save(store, 1)
    shutil.copytree(path, store.directory / ".writing-0-2-left")
    shutil.copytree(path, store.directory / ".removed-left")
    (store.directory / "notes.txt").write_text("not ours")
    (store.directory / "step-17").mkdir()
    assert consistent(store.load()) == 1
    save(store, 2)
    assert not hidden(store)
    assert (store.directory / "notes.txt").exists()
    assert (store.directory / "step-17").exists()


ACTIONS = st.lists(
    st.tuples(st.just("save"), st.integers(0, 5))
    | st.tuples(st.sampled_from(["cut", "flip"]), st.integers(0, 10**6)),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(ACTIONS, st.integers(1, 3))
def test_whatever_happens_the_newest_undamaged_one_is_loaded(actions: list[tuple[str, int]], keep: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = FolderCheckpointStore(Path(directory), keep)
        written: list[tuple[int, Path, bool]] = []  # step, path, good
        for action, number in actions:
            if action == "save":
                path = save(store, number)
                written = [entry for entry in written if entry[1].exists() and entry[1] != path]
                written.append((number, path, True))
            elif written:
                step, path, _ = written.pop()
                raw = (path / FILES[number % 3]).read_bytes()
                at = number % max(len(raw), 1)
                rest = bytes([raw[at] ^ 1]) + raw[at + 1 :] if action == "flip" and raw else b""
                (path / FILES[number % 3]).write_bytes(raw[:at] + rest)
                written.append((step, path, False))
        good = [step for step, _, fine in written if fine]
        if good:
            assert consistent(store.load()) == good[-1]
        elif written:
            with pytest.raises(TrainError):
                store.load()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(width=32), max_size=5),
    st.dictionaries(
        st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none()
    ),
    st.integers(0, 10**12 - 1),
)
def test_content_info_and_step_come_back(values: list[float], info: dict[str, Any], step: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = FolderCheckpointStore(Path(directory))
        weights = torch.tensor(values)
        store.save(step, pack({"w": weights, "info": info}), {"extra": info})
        loaded = store.load()
        assert loaded is not None
        content = unpack(loaded.packed)
        assert content["w"].view(torch.int32).tolist() == weights.view(torch.int32).tolist()
        assert (content["info"], loaded.info, loaded.step) == (info, {"extra": info}, step)


# A disk that does not work


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """A real error of the system in the middle of a file, as a full disk gives."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)


LARGE = {
    FILES[0]: (pack({"w": torch.zeros(1000)}), {}),
    FILES[1]: (pack({"text": "x" * 4000}), {}),
    FILES[2]: (pack({}), {"text": "x" * 4000}),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("limit", [0, 1000])
def test_a_full_disk_is_reported_and_leaves_the_older_ones(
    store: FolderCheckpointStore, name: str, limit: int
) -> None:
    for step in (1, 2):
        save(store, step)
    message = r"cannot save step 3 to .*checkpoints: .*too large"
    with file_size_limit(limit), pytest.raises(TrainError, match=message):
        store.save(3, *LARGE[name])
    assert store.steps() == [1, 2]
    assert consistent(store.load()) == 2
    assert not hidden(store)
    save(store, 3)
    assert consistent(store.load()) == 3


def test_a_directory_that_cannot_be_made_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = FolderCheckpointStore(tmp_path / "file" / "checkpoints")
    with pytest.raises(TrainError, match=r"cannot save step 1 to .*file/checkpoints: Not a directory"):
        save(store, 1)
    with pytest.raises(TrainError, match=r"cannot raise the fence in .*: Not a directory"):
        store.raise_fence(1)


# Generations


def test_a_fence_stops_older_generations_only(store: FolderCheckpointStore) -> None:
    save(store, 1, generation=3)
    store.raise_fence(4)
    with pytest.raises(TrainError, match=r"a newer generation \(4\) owns this directory"):
        save(store, 2, generation=3)
    assert store.steps() == [1]
    save(store, 2, generation=4)
    save(store, 3, generation=5)
    assert store.steps() == [2, 3]


def test_a_fence_is_never_lowered(store: FolderCheckpointStore) -> None:
    for generation in (4, 9, 2):
        store.raise_fence(generation)
    assert FolderCheckpointStore(store.directory).fence() == 9
    assert len(list(store.directory.iterdir())) == 1
    with pytest.raises(TrainError, match="-1"):
        store.raise_fence(-1)


def test_who_restores_owns_the_directory_before_it_reads(store: FolderCheckpointStore) -> None:
    save(store, 1, generation=3)
    store.own(5)
    with pytest.raises(TrainError, match=r"a newer generation \(5\) owns this directory"):
        save(FolderCheckpointStore(store.directory), 2, generation=3)  # a stale writer wakes up
    with pytest.raises(TrainError, match="generation 4 may not save here"):
        store.own(4)
    assert consistent(store.load()) == 1


def test_what_a_stale_writer_gets_in_all_the_same_is_never_chosen(store: FolderCheckpointStore) -> None:
    """Where a fence is seen late, as on a network disk."""
    store.own(5)
    save(store, 10, generation=5)
    for fence in store.directory.glob("fence-*"):
        fence.unlink()
    save(store, 12, generation=3)
    assert consistent(store.load()) == 10
    save(store, 11, generation=5)
    assert store.steps() == [10, 11]


SYSTEM_CALLS = ("mkdir", "fsync", "rename", "rmdir", "unlink")


def intercept(monkeypatch: pytest.MonkeyPatch, at: int, action: Callable[[], None]) -> list[int]:
    """Do ``action`` once, right before the call number ``at`` that changes the disk; returns a counter."""
    count = [0]

    def wrap(name: str) -> None:
        original = getattr(os, name)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                action()
            return original(*args, **kwargs)

        monkeypatch.setattr(os, name, wrapper)

    for name in SYSTEM_CALLS:
        wrap(name)
    return count


def disk_changes(tmp_path: Path, before: Callable[[FolderCheckpointStore], object]) -> int:
    """How many such calls one save of step 2 makes."""
    store = FolderCheckpointStore(tmp_path / "counted", keep=1)
    before(store)
    with pytest.MonkeyPatch.context() as patch:
        count = intercept(patch, -1, lambda: None)
        save(store, 2)
    return count[0]


@pytest.mark.parametrize("next_step", [None, 1, 2, 3])
def test_a_fence_raised_at_any_moment_of_a_save_lets_nothing_in_afterwards(
    tmp_path: Path, next_step: int | None
) -> None:
    """A writer of generation 1 is held up before each change it makes; meanwhile 2 takes over, and may save."""
    refused = accepted = at = 0
    for at in range(1, 1 + disk_changes(tmp_path, lambda store: save(store, 1))):
        old, new = (FolderCheckpointStore(tmp_path / str(at), keep=1) for _ in range(2))
        save(old, 1, generation=1)
        seen: list[Path] = []

        def take_over(new: FolderCheckpointStore = new, seen: list[Path] = seen) -> None:
            new.raise_fence(2)
            loaded = new.load()
            assert loaded is not None
            seen.append(loaded.path if next_step is None else save(new, next_step, generation=2))

        with pytest.MonkeyPatch.context() as patch:
            intercept(patch, at, take_over)
            try:
                save(old, 2, generation=1)
            except TrainError as error:
                refused += "newer generation (2) owns" in str(error)
            else:
                accepted += 1
        loaded = new.load()
        consistent(loaded)
        assert loaded is not None
        assert loaded.path == seen[0], at
        assert not hidden(new)
    assert refused >= 5
    assert refused + accepted == at


# Crashes


def exit_code_of(work: Callable[[], None]) -> int:
    """Run ``work`` in a process of its own."""

    def main() -> None:
        torch.set_num_threads(1)  # threads of the parent do not exist here
        work()

    process = FORK.Process(target=main)
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


@pytest.mark.parametrize("first", [1, 2], ids=["a new step", "the same step again"])
def test_a_crash_before_any_change_of_the_disk_leaves_a_whole_checkpoint(tmp_path: Path, first: int) -> None:
    for at in range(1, 1 + disk_changes(tmp_path, lambda store: save(store, first))):
        store = FolderCheckpointStore(tmp_path / str(at), keep=1)
        store.save(first, state(first), {"step": first, "try": "first"})

        def dying_save(store: FolderCheckpointStore = store, at: int = at) -> None:
            intercept(pytest.MonkeyPatch(), at, lambda: os._exit(9))
            store.save(2, state(2), {"step": 2, "try": "second"})

        assert exit_code_of(dying_save) == 9
        loaded = store.load()
        assert consistent(loaded) in (first, 2)
        assert not store.skipped
        store.save(2, state(2), {"step": 2, "try": "third"})
        again = store.load()
        assert again is not None
        assert again.info["try"] == "third"
        assert store.steps() == [2]
        assert not hidden(store)
        assert len(list(store.directory.iterdir())) == 1


def save_for_ever(directory: Path, first: int, size: int, notices: Any) -> None:
    torch.set_num_threads(1)
    store = FolderCheckpointStore(directory)
    for step in range(first, 10**6):
        save(store, step, size=size)
        notices.send(step)


def test_a_reader_is_never_disturbed_by_a_writer(tmp_path: Path) -> None:
    save(FolderCheckpointStore(tmp_path), 1)
    here, there = FORK.Pipe(duplex=False)
    process = FORK.Process(target=save_for_ever, args=(tmp_path, 2, 3, there))
    process.start()
    reader, last = FolderCheckpointStore(tmp_path), 1
    try:
        for _ in range(20):
            here.recv()
            for _ in range(10):
                step = consistent(reader.load())
                assert step >= last
                last = step
    finally:
        process.kill()
        process.join()
    assert last > 20


def test_kill_9_in_the_middle_of_saving_leaves_a_consistent_checkpoint(store: FolderCheckpointStore) -> None:
    rng, size, first = random.Random(0), 500_000, 1
    interrupted = kills = 0
    # How often a kill lands inside a save depends on the disk, so it goes on until enough have.
    while interrupted < 5 or kills < 25:
        kills += 1
        assert kills <= 500, f"only {interrupted} of 500 kills came in the middle of a save"
        here, there = FORK.Pipe(duplex=False)
        process = FORK.Process(target=save_for_ever, args=(store.directory, first, size, there))
        process.start()
        there.close()
        told = here.recv()
        if here.poll(rng.uniform(0.0, 0.02)):  # somewhere in the next save, or the one after it
            told = here.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while here.poll():  # notices that were on their way
            try:
                told = here.recv()
            except EOFError:
                break
        interrupted += any(name.startswith(".writing") for name in hidden(store))
        step = consistent(store.load(), size)
        # The step that had been reported is not lost; the kill may have come before the next report.
        assert step in (told, told + 1)
        first = step + 1
    save(store, first)
    assert not hidden(store)
