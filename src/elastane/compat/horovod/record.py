"""Records a Horovod job: events about its steps and members, and checkpoints of its commits.

Both go to the folder of the run that Elastane names in ``ELASTANE_RUN`` (checkpoints to ``ELASTANE_CHECKPOINTS``, where
that is said); alone and without it nothing is written, as with Horovod.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import elastane
from elastane.train.errors import PlaceAway
from elastane.train.reports.events import Resized, Saved, Started, Warned
from elastane.train.worker.async_save import AsyncSaver, SaveInterval
from elastane.train.worker.checkpoint_store import highest_stored, open_checkpoint_store
from elastane.train.worker.event_sink import Outlet
from elastane.train.worker.membership import Change, Membership
from elastane.train.worker.state_codec import Packed
from elastane.train.worker.telemetry import Reporter


@dataclass(frozen=True, slots=True)
class _Book:
    """The files and clocks of one run: events, checkpoints, their interval."""

    run: Path
    outlet: Outlet
    reporter: Reporter
    saver: AsyncSaver
    interval: SaveInterval


class Record:
    """Written by whoever leads."""

    def __init__(self, book: _Book | None) -> None:
        self.epoch = 0
        self.batch = 0
        """Samples of a step over all workers, if an ``ElasticSampler`` has said so."""
        self._book = book
        self._told = -1
        self._warned: PlaceAway | None = None
        self._leads = False

    @classmethod
    def of(cls, membership: Membership) -> Record:
        """The record of the run this process belongs to, if it belongs to one."""
        chosen = os.environ.get("ELASTANE_RUN")
        if not chosen:
            return cls(None)
        run = Path(chosen)
        outlet = Outlet(membership, run)
        saver = AsyncSaver(open_checkpoint_store(run))
        return cls(_Book(run, outlet, Reporter(outlet.emit, time.time), saver, SaveInterval(time.monotonic())))

    def counts(self, batch: int) -> None:
        """A step has so many samples."""
        self.batch = batch

    def at_epoch(self, epoch: int) -> None:
        """Training has come to this epoch."""
        self.epoch = epoch

    def begin(self, membership: Membership) -> None:
        """Training can begin; where a coordinator plans, ``changed`` has said so already."""
        if self._book is not None:
            self._book.reporter.begin()
            if not membership.elastic:
                self._started(self._book, membership)

    def _started(self, book: _Book, membership: Membership) -> None:
        versions = {"elastane": elastane.__version__, "torch": torch.__version__}
        script = Path(sys.argv[0]).name
        book.reporter.emit(
            Started(time.time(), str(book.run), script, "horovod", membership.world, 0, 0, versions)
        )

    def changed(self, change: Change, step: int, membership: Membership) -> None:
        """Report that members have changed, if this worker leads."""
        book = self._book
        led, self._leads = self._leads, membership.rank == 0
        if book is None or not self._leads:
            return
        if not led:
            book.reporter.begin()
        if change.kind == "start":
            self._started(book, membership)
        book.reporter.resized()
        book.reporter.emit(
            Resized(
                time.time(),
                change.generation,
                change.kind,  # type: ignore[arg-type]
                change.before,
                change.after,
                step,
                change.pause_s,
                change.breakdown,
            )
        )
        if change.kind == "recover":
            book.interval.failed(time.monotonic())

    def stepped(self, compute_s: float, sync_s: float) -> None:
        """One optimizer step was made here."""
        if self._book is not None:
            self._book.reporter.step(self.batch, compute_s, sync_s)

    def boundary(
        self, step: int, membership: Membership, picture: Callable[[], Packed | None], *, last: bool
    ) -> None:
        """A commit at which something may be due; ``last`` if there will be no other."""
        book = self._book
        if book is None:
            return
        if last:
            with contextlib.suppress(PlaceAway):  # this is the next try
                book.saver.flush()
        if last or book.interval.due(time.monotonic()):
            self._save(book, step, picture(), membership.generation)
        if last:
            book.saver.flush()
        if last or book.reporter.due():
            self._tell_saved(book)
            self._window(book, step, membership)

    def _save(self, book: _Book, step: int, picture: Packed | None, generation: int) -> None:
        if picture is None:
            return
        began = time.monotonic()
        book.saver.submit(step, picture, {"epoch": self.epoch}, generation)
        book.interval.saved(time.monotonic(), time.monotonic() - began)

    def _tell_saved(self, book: _Book) -> None:
        problem = book.saver.problem
        if isinstance(problem, PlaceAway) and problem is not self._warned:
            self._warned = problem
            book.reporter.emit(Warned(time.time(), f"{problem}; training goes on, and saves again later"))
        facts = book.saver.last
        if facts is not None and facts.step != self._told:
            self._told = facts.step
            book.reporter.emit(Saved(time.time(), facts.step, facts.bytes, facts.blocking_s, facts.write_s))

    def _window(self, book: _Book, step: int, membership: Membership) -> None:
        m = membership
        book.reporter.window(
            step=step,
            epoch=self.epoch,
            workers=m.world,
            nodes=m.nodes,
            generation=m.generation,
            batch=self.batch,
        )

    def stored(self) -> int:
        """The latest generation that has left anything where checkpoints lie."""
        return highest_stored(self._book.saver.store) if self._book is not None else 0

    def load(self, generation: int) -> Packed | None:
        """The newest checkpoint of this run, whose directory is this generation's from now on."""
        if self._book is None:
            return None
        store = self._book.saver.store
        if generation:
            store.own(generation)
        loaded = store.load()
        return loaded.packed if loaded is not None else None

    def end(self, step: int, membership: Membership) -> None:
        """The script has come to its end."""
        if self._book is not None and membership.rank == 0:
            self._book.saver.flush()
            self._tell_saved(self._book)
            self._window(self._book, step, membership)
            self._book.outlet.end("finished", "", step)
