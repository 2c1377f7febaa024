"""``UrlCheckpointStore`` keeps checkpoints where several machines see them, without relying on renames or locks.

*Whole or not at all*: parts are written under names that nobody else uses, the manifest last.  A checkpoint is read
only if all its parts have the sizes and checksums (CRC-32, as in ``checkpoint``) that its manifest says.

*The fence is the reader's*: a worker that was given up, on a machine that nobody reaches, may write while it lives.
Whoever begins to train *claims* the place for its generation, and writes down which checkpoints it found.  From then on
only those count and what this generation and later ones write, of that the highest generation, of that the highest
serial.  A writer that is superseded by a claim is told so at its next save, if it can be.

*A list may be old* (a minute on NFS).  A list that has what this process wrote itself is as new as that: so a claim is
written first and looked for in the list, and a writer removes only by a list in which its own manifest stands.  What it
removes has ``keep`` newer ones there, which any later claim knows as well; so a writer may be stopped for hours between
looking and removing, and does no harm.  Nobody removes anything of a higher generation.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from elastane.kit.storage_urls import masked
from elastane.train.errors import PlaceAway, TrainError
from elastane.train.worker.checkpoint import Loaded, checked_info, separate
from elastane.train.worker.checkpoint_store_names import (
    FORMAT,
    LATEST_GENERATION,
    MOST_KNOWN,
    MOST_PARTS,
    MOST_TEXT,
    Claim,
    ClaimName,
    Listing,
    Manifest,
    Part,
    Stamp,
    check,
    part_names,
    part_of,
    readable,
    sealed,
    unsealed,
    whole,
)
from elastane.train.worker.checkpoint_store_objects import Objects, StoreAway
from elastane.train.worker.state_codec import Packed, clone_tensors

PART_BYTES = 1 << 28
"""Of tensors in one part, unless a single one has more: so much more memory does a save take."""
OLD_LIST_S = 120.0
"""How old a list may be."""
_LOOK_S = 0.5
_NONSENSE = (
    TrainError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RuntimeError,
    RecursionError,
    SafetensorError,
)


class UrlCheckpointStore:
    """The checkpoints of one job in a place that others write to as well (``checkpoint_store.CheckpointStore``)."""

    def __init__(
        self, objects: Objects, where: str, keep: int = 2, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.where = where
        self.keep = keep
        self.skipped: list[str] = []
        self._objects = objects
        self._sleep = sleep
        self._unique = uuid.uuid4().hex
        self._mine: ClaimName | None = None
        self._written: Stamp | None = None
        self._manifests: dict[str, Manifest] = {}
        self._claims: dict[str, frozenset[str]] = {}
        """Manifests and decided claims, which never change."""
        self._one_at_a_time = threading.RLock()

    # Writing.

    def save(self, step: int, packed: Packed, info: Mapping[str, Any], generation: int = 0) -> str:
        """Write a checkpoint, then remove what is not needed any more; returns the name of its manifest."""
        if not 0 <= step < 10**12 or not 0 <= generation <= LATEST_GENERATION:
            raise TrainError(f"no checkpoint can have step {step} and generation {generation}")
        facts = checked_info(info)
        with self._one_at_a_time, self._told(f"cannot save step {step} to {self.where}"):
            listing = self._list()
            self._refuse_if_superseded(listing.claimed, generation)
            stamp = Stamp(generation, self._next_serial(listing, generation), uuid.uuid4().hex)
            parts: list[Part] = []
            try:
                for part in self._put_parts(stamp, packed):
                    parts.append(part)
                manifest = Manifest(FORMAT, step, generation, stamp.serial, facts, parts)
                text = sealed(manifest)
                if len(text) > MOST_TEXT:
                    raise TrainError(
                        f"the info of a checkpoint may have {MOST_TEXT:,} bytes, not {len(text):,}"
                    )
                self._objects.put(stamp.manifest, text)
            except BaseException:
                with contextlib.suppress(OSError):
                    for name in (stamp.manifest, *part_names(stamp, len(parts))):
                        self._objects.remove(name)
                raise
            self._written, self._manifests[stamp.manifest] = stamp, manifest
            self._tidy(stamp)
        return stamp.manifest

    def _put_parts(self, stamp: Stamp, packed: Packed) -> Iterator[Part]:
        kind, data = "tree", json.dumps(packed.tree, allow_nan=False, separators=(",", ":")).encode()
        for number, group in enumerate((None, *_groups(separate(packed.tensors)))):
            if number > MOST_PARTS:
                raise TrainError(f"a checkpoint has {MOST_PARTS:,} parts at most")
            if group is not None:
                kind, data = f"tensors-{number - 1:04d}", save(group)
            self._objects.put_part(stamp.part(kind), data)
            yield part_of(stamp.part(kind), data)

    def _next_serial(self, listing: Listing, generation: int) -> int:
        known = [stamp.serial for stamp in listing.parts.values() if stamp.generation == generation]
        if self._written is not None and self._written.generation == generation:
            known.append(self._written.serial)
        return 1 + max(known, default=0)

    def raise_fence(self, generation: int) -> None:
        """Nothing: no writer can keep another out of such a place.  Readers see to it."""

    def _tidy(self, mine: Stamp) -> None:
        """Remove what the ``keep`` newest steps do not need; nothing, by a list without the one just written."""
        listing = self._list()
        self._refuse_if_superseded(listing.claimed, mine.generation)
        if mine not in listing.stamps or listing.established > mine.generation:
            return
        kept: dict[int, Stamp] = {}
        for stamp in readable(listing.stamps, self._standing(listing)):
            manifest = self._peek(stamp)
            if manifest is not None and whole(manifest, listing.sizes) and len(kept) < self.keep:
                kept.setdefault(manifest.step, stamp)
        if mine not in kept.values():
            return
        needed = set(kept.values())
        for stamp in listing.stamps:  # first of all it is a checkpoint no more
            if stamp not in needed and stamp.generation <= mine.generation:
                self._objects.remove(stamp.manifest)
                self._manifests.pop(stamp.manifest, None)
        for name, stamp in listing.parts.items():
            if stamp not in needed and stamp.generation <= mine.generation and not name.endswith(".manifest"):
                self._objects.remove(name)

    # Claiming.

    def own(self, generation: int) -> None:
        """Claim the place: what earlier generations complete from now on is never read.

        Raises:
            TrainError: a later generation was here, or another one with the same number.
        """
        if not 0 <= generation <= LATEST_GENERATION:
            raise TrainError(f"no generation can have the number {generation}")
        claim = ClaimName(generation, self._unique)
        with self._one_at_a_time, self._told(f"cannot claim {self.where}"):
            if self._mine == claim:
                return
            self._objects.put(str(claim), sealed(Claim()))
            try:
                listing = self._list(claim)
                others = [each for each in listing.claims if each.generation == generation and each != claim]
                if others:
                    raise TrainError(f"another generation {generation} owns this place, {self.where}")
                self._refuse_if_superseded(listing.established, generation)
                found = readable(listing.stamps, self._standing(listing, before=generation))
                known = [stamp.manifest for stamp in found[:MOST_KNOWN]]
                self._objects.put(str(claim), sealed(Claim(known)))
            except TrainError:
                with contextlib.suppress(OSError):
                    self._objects.remove(str(claim))
                raise
            self._mine, self._claims[str(claim)] = claim, frozenset(known)
            for each in listing.claims:
                if each.generation < generation:
                    self._objects.remove(str(each))

    def _refuse_if_superseded(self, latest: int, generation: int) -> None:
        if latest > generation:
            raise TrainError(
                f"a newer generation ({latest}) owns this place, {self.where}; generation {generation} "
                "may not save here"
            )

    def _standing(self, listing: Listing, before: int | None = None) -> tuple[int, frozenset[str]] | None:
        """The latest claim that was decided, and what it found."""
        for claim in reversed(listing.claims):
            if before is None or claim.generation < before:
                known = self._decided(str(claim))
                if known is not None:
                    return claim.generation, known
        return None

    def _decided(self, name: str) -> frozenset[str] | None:
        if name not in self._claims:
            try:
                known = unsealed(self._objects.get(name, MOST_TEXT), Claim).known
            except (FileNotFoundError, *_NONSENSE):
                return None
            if known is None:
                return None
            self._claims[name] = frozenset(known)
        return self._claims[name]

    # Reading.

    def highest(self) -> int:
        """The latest generation that has written anything here; 0 if none has."""
        with self._one_at_a_time, self._told(f"cannot list {self.where}"):
            return self._list().highest

    def load(self, step: int | None = None) -> Loaded | None:
        """The newest whole checkpoint that counts (or that of ``step``); None if there never was one."""
        with self._one_at_a_time, self._told(f"cannot read {self.where}"):
            seen: list[Stamp] | None = None
            patience_s = OLD_LIST_S
            while True:
                listing = self._list(self._mine)
                stamps = readable(listing.stamps, self._standing(listing))
                self.skipped, gone = [], False
                for stamp in stamps:
                    try:
                        if loaded := self._read(stamp, step):
                            return loaded
                    except FileNotFoundError:
                        gone = True
                        self.skipped.append(f"{stamp.manifest}: it, or a part of it, is gone")
                    except _NONSENSE as error:
                        self.skipped.append(f"{stamp.manifest}: {error}")
                # Once more if a writer has put others in their place, and if the list names what is not there any more.
                if seen == stamps and not (gone and patience_s > 0.0 and not self._all_there(stamps)):
                    break
                if seen == stamps:
                    self._sleep(_LOOK_S)
                    patience_s -= _LOOK_S
                seen = stamps
        if self.skipped:
            raise TrainError(f"no checkpoint in {self.where} can be read: {'; '.join(self.skipped)}")
        if step is not None:
            raise TrainError(f"there is no checkpoint of step {step} in {self.where}")
        return None

    def _all_there(self, stamps: list[Stamp]) -> bool:
        """Whether every manifest in the list exists: if not, the list is an old one."""
        try:
            return all(self._objects.get(stamp.manifest, MOST_TEXT) for stamp in stamps)
        except FileNotFoundError:
            return False
        except ValueError:
            return True

    def _read(self, stamp: Stamp, step: int | None) -> Loaded | None:
        manifest = self._manifest(stamp)
        if step not in (None, manifest.step):
            return None
        tree: Any = None
        tensors: dict[str, Tensor] = {}
        for number, part in enumerate(manifest.parts):
            data = self._objects.get(part.name, part.bytes)
            if len(data) != part.bytes or zlib.crc32(data) != part.crc32:
                raise TrainError(f"{part.name} is torn or changed")
            if number == 0:
                tree = json.loads(data)
                continue
            # Copied, so that tensors begin at even addresses and the bytes of one part can go before the next.
            more = clone_tensors(Packed(load(data), None)).tensors
            if tensors.keys() & more.keys():
                raise TrainError(f"{part.name} has tensors of another part")
            tensors.update(more)
        return Loaded(manifest.step, Packed(tensors, tree), manifest.info, stamp.manifest, stamp.generation)

    def _manifest(self, stamp: Stamp) -> Manifest:
        manifest = unsealed(self._objects.get(stamp.manifest, MOST_TEXT), Manifest)
        check(manifest, stamp, _memory_bytes())
        return manifest

    def _peek(self, stamp: Stamp) -> Manifest | None:
        """A manifest that may have been read before; None if it is of no use."""
        if stamp.manifest not in self._manifests:
            try:
                self._manifests[stamp.manifest] = self._manifest(stamp)
            except (FileNotFoundError, *_NONSENSE):
                return None
        return self._manifests[stamp.manifest]

    def _list(self, since: ClaimName | None = None) -> Listing:
        """What is there, in a list that is new enough to have this claim."""
        patience_s = OLD_LIST_S
        while True:
            listing = Listing.of(self._objects.sizes())
            if since is None or since in listing.claims:
                return listing
            self._refuse_if_superseded(listing.claimed, since.generation)
            if patience_s <= 0.0:
                raise TrainError(f"{self.where} does not list what was written there {OLD_LIST_S:g} s ago")
            self._sleep(_LOOK_S)
            patience_s -= _LOOK_S

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            kind = PlaceAway if isinstance(error, StoreAway) else TrainError
            raise kind(masked(f"{what}: {error.strerror or error}")) from error


def _groups(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """Tensors in groups of ``PART_BYTES`` at most, or of one."""
    group: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if group and size + tensor.nbytes > PART_BYTES:
            yield group
            group, size = {}, 0
        group[name] = tensor
        size += tensor.nbytes
    if group:
        yield group


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
