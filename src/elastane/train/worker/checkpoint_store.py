"""``CheckpointStore`` is where a job's checkpoints lie, as the training sees it; ``open_checkpoint_store`` finds it.

Without a word about it that is ``checkpoints`` in the folder of the run (``checkpoint.FolderCheckpointStore``): on a
disk of this machine, fenced by its writers.  ``ELASTANE_CHECKPOINTS`` names another place, a URL or an absolute path,
that several machines may reach (``checkpoint_store_url.UrlCheckpointStore``): fenced by its readers, since nobody can
be sure who sees what when.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from elastane.kit.storage_urls import VARIABLE, local_path
from elastane.train.errors import TrainError
from elastane.train.worker.checkpoint import FolderCheckpointStore, Loaded
from elastane.train.worker.checkpoint_store_names import LATEST_GENERATION
from elastane.train.worker.checkpoint_store_objects import open_objects
from elastane.train.worker.checkpoint_store_url import UrlCheckpointStore
from elastane.train.worker.state_codec import Packed


class CheckpointStore(Protocol):
    """The checkpoints of one job.  Whatever fails raises ``TrainError``, in one sentence."""

    @property
    def skipped(self) -> list[str]:
        """Why the last ``load`` passed over some of them."""
        ...

    def save(self, step: int, packed: Packed, info: Mapping[str, Any], generation: int = 0) -> object:
        """Write a checkpoint, whole or not at all, and remove those that are not needed any more."""
        ...

    def raise_fence(self, generation: int) -> None:
        """Keep writers of earlier generations out, as far as the place lets a writer do that."""
        ...

    def own(self, generation: int) -> None:
        """From now on nothing that an earlier generation still writes is read; refused if a later one was here."""
        ...

    def highest(self) -> int:
        """The latest generation of which anything is there; 0 if nothing is."""
        ...

    def load(self, step: int | None = None) -> Loaded | None:
        """The newest whole checkpoint, in memory of its own; None if there never was one."""
        ...


class MovedCheckpointStore:
    """A store that goes on from where the job's checkpoints lay earlier, as long as it has none itself."""

    def __init__(self, now: CheckpointStore, *earlier: CheckpointStore) -> None:
        self.now = now
        self.earlier = earlier

    @property
    def skipped(self) -> list[str]:
        """Why the last ``load`` passed over some of them."""
        return [reason for each in (self.now, *self.earlier) for reason in each.skipped]

    def save(self, step: int, packed: Packed, info: Mapping[str, Any], generation: int = 0) -> object:
        """Write to the new place only."""
        return self.now.save(step, packed, info, generation)

    def raise_fence(self, generation: int) -> None:
        """Where nobody saves any more no fence is needed."""
        self.now.raise_fence(generation)

    def own(self, generation: int) -> None:
        """Take over the new place."""
        self.now.own(generation)

    def highest(self) -> int:
        """The latest generation in any of the places."""
        return max(each.highest() for each in (self.now, *self.earlier))

    def load(self, step: int | None = None) -> Loaded | None:
        """From the new place, if there is anything."""
        found = self.now.load(step)
        for each in self.earlier if found is None else ():
            found = found or each.load(step)
        return found


def open_checkpoint_store(run: Path, environment: Mapping[str, str] = os.environ) -> CheckpointStore:
    """The store of the run whose folder this is.

    Raises:
        TrainError: no place can be what the environment names, or a package for it is missing.
    """
    usual = FolderCheckpointStore(run / "checkpoints")
    place = environment.get(VARIABLE)
    if not place:
        return usual
    objects = open_objects(place)
    folder = local_path(place)
    earlier = [usual]
    if folder is not None and folder.absolute() != usual.directory.absolute():
        earlier.append(FolderCheckpointStore(folder))  # one that an earlier version wrote, or another run
    return MovedCheckpointStore(UrlCheckpointStore(objects, objects.where), *earlier)


def highest_stored(store: CheckpointStore) -> int:
    """What a worker tells its coordinator; 0 if the place does not answer, which the start will say in words."""
    try:
        return min(store.highest(), LATEST_GENERATION)  # what lies there may be nonsense
    except TrainError:
        return 0
