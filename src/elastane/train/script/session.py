"""One script's training behind its ``Job``: puts membership, state, checkpoints and loop together, and begins to train.

Until ``enter`` there are only declarations; then everything the loop consists of is known, and it is made.
"""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import elastane
from elastane.models.learning_rate import LearningRateRule
from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.rules import BatchRule
from elastane.train.adapt.settings import AdaptationSettings
from elastane.train.coordinator import exit_note, script_runner
from elastane.train.data import rng
from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.device import Device
from elastane.train.device_checks import check_deterministic, check_model
from elastane.train.errors import TrainError
from elastane.train.run_folder import default_run
from elastane.train.script.chained import Chained
from elastane.train.script.declared import Declarations, declared_here
from elastane.train.script.environment import membership_here
from elastane.train.script.loader import ElasticLoader
from elastane.train.script.progress import Progress
from elastane.train.script.refusals import advice
from elastane.train.script.target import TargetWatch
from elastane.train.worker.async_save import AsyncSaver, SaveInterval
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.checkpoint_schedule import CheckpointSchedule
from elastane.train.worker.checkpoint_store import highest_stored, open_checkpoint_store
from elastane.train.worker.consensus import Agreement
from elastane.train.worker.event_sink import Outlet
from elastane.train.worker.leader_duties import Host
from elastane.train.worker.loop import Loop, LoopParts
from elastane.train.worker.node_snapshots import newest, offered
from elastane.train.worker.position import Position
from elastane.train.worker.recipe import Recipe
from elastane.train.worker.replica_state import TrainingState
from elastane.train.worker.step_cut import LoopSettings
from elastane.train.worker.telemetry import Reporter

EXCHANGE = 5
"""The format of what workers send each other; raised when it changes, so that two versions do not train together."""


@dataclass(frozen=True, slots=True)
class AdaptWishes:
    """How the owner wants batch and learning rate to adapt."""

    batch_rule: BatchRule | str | None = None
    lr_rule: LearningRateRule | str | None = None
    max_batch: int | None = None
    max_per_worker: int | None = None


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What ``et.init`` was given."""

    settings: LoopSettings
    run: str | Path | None = None
    checkpoint_every: float | None = None
    wishes: AdaptWishes = field(default_factory=AdaptWishes)
    device: Device = field(default_factory=Device)


class Session:
    """The training of one job on one worker."""

    def __init__(self, options: SessionOptions) -> None:
        self.settings = settings = options.settings
        self.declarations = Declarations(declared_here(os.environ))
        self.state = TrainingState()
        self.device = options.device
        self.membership = membership_here(self.device)
        script_runner.tell_cause.append(self.membership.goodbye)
        script_runner.advise.append(self._advice)
        script_runner.at_clean_end.append(self.finish)
        script_runner.at_error.append(self._rescue)
        chosen = options.run or os.environ.get("ELASTANE_RUN")
        self.run = Path(chosen) if chosen else default_run(sys.argv[0], time.time())
        self.outlet = Outlet(self.membership, self.run)
        self.reporter = Reporter(self.outlet.emit, time.time)
        self.position = Position()
        self.recipe = Recipe(self.state)
        self.agreement = Agreement(settings.mode, self.membership, self.reporter)
        self.loaders: dict[str, ElasticLoader] = {}
        self.progress = Progress(
            self.run, settings, self.membership, self.position, self.loaders, lambda: self.adaptation
        )
        self._wishes = options.wishes
        self._store = open_checkpoint_store(self.run)
        # On a CPU survivors can always end a broken collective, and one of them has the state.
        self._snapshots = offered() if not self.device.is_cpu else None
        self._interval = SaveInterval(time.monotonic(), options.checkpoint_every)
        self._loop: Loop | None = None
        self._finished = False
        self._restoring = False
        # Random states come behind what may draw from them.
        self.state.add("loop", lambda: self.loop.state_dict(), lambda state: self.loop.load_state_dict(state))
        self.state.add(
            "reductions",
            lambda: self.loop.reductions.state_dict(),
            lambda state: self.loop.reductions.load_state_dict(state),
        )
        self.state.add("random", lambda: rng.picture(self.device), self._put_random_state)
        goal = self.declarations.said.target
        self.target = TargetWatch(goal) if goal is not None else None
        if self.target is not None:
            self.state.add("target", self.target.state_dict, self.target.load_state_dict)

    # How training goes, also before it has begun.

    @property
    def entered(self) -> bool:
        """Whether training has begun."""
        return self._loop is not None

    @property
    def loop(self) -> Loop:
        """The loop; raises TrainError before training has begun."""
        if self._loop is None:
            raise TrainError("opt.step() was called outside the loop over job.loader(...)")
        return self._loop

    @property
    def elastic(self) -> bool:
        """Whether workers may come and go, watched by a supervisor."""
        return self.membership.elastic

    @property
    def adaptation(self) -> Adaptation | None:
        """What adapts batch and learning rate, once training with a loader has begun."""
        return self._loop.adaptation if self._loop is not None else None

    @property
    def stepped(self) -> bool:
        """Whether the last ``opt.step()`` was a real step."""
        return self._loop is not None and self._loop.stepped

    @property
    def step_due(self) -> bool:
        """Whether the batch at hand is the last one before a step."""
        return self._loop is not None and self._loop.step_due

    @property
    def half_done(self) -> bool:
        """Whether some parts of a step have been computed and others have not."""
        return self._loop is not None and self._loop.half_done

    @property
    def replaying(self) -> bool:
        """Whether the script is still finding its way back to where the job stands."""
        return self.position.catching_up or any(loader.replaying for loader in self.loaders.values())

    # The beginning of training.

    def add_loader(self, loader: ElasticLoader, max_batch: int | None, max_per_worker: int | None) -> None:
        """A loader of the job; the first one's batch adapts, up to these sizes."""
        first = not self.loaders
        self.loaders[loader.name] = loader
        self.state.add(f"loader.{loader.name}", loader.state_dict, loader.load_state_dict)
        if first:
            self._wishes = replace(self._wishes, max_batch=max_batch, max_per_worker=max_per_worker)
            if self._loop is not None:
                self._adapt(self._loop, loader)
                self.tell_differences()

    def enter(self) -> Loop:
        """Begin to train, unless that has happened already: make the loop, and become a member."""
        if self._loop is not None:
            return self._loop
        self._refuse_unready()
        saver = AsyncSaver(self._store, memory=self._snapshots)
        checkpoints = CheckpointSchedule(saver, self._interval, self.state, self.reporter)
        self._loop = loop = self._made(checkpoints)
        for loader in list(self.loaders.values())[:1]:
            self._adapt(loop, loader)
        loop.join()
        m = self.membership
        if m.rank == 0:
            checkpoints.prepare()
        if self.settings.mode is not Mode.CONSISTENT and m.rank > 0:
            key = key_of(Purpose.UNIT, self.settings.seed, self.position.step, 1_000_000 + m.rank)
            seed_all(key, self.device)
        self.reporter.begin()
        if m.rank == 0 and not m.elastic:
            self.outlet.emit(self.progress.started())
        self.tell_differences()
        return loop

    def tell_differences(self) -> None:
        """Tell the owner, once, where the script differs from the job's spec."""
        for note in self.declarations.take_notes():
            if self.membership.rank == 0:
                self.outlet.warn(note)

    def _refuse_unready(self) -> None:
        optimizer = self.state.optimizer
        if self.state.model is None or optimizer is None:
            raise TrainError("call job.model(...) and job.optimizer(...) before training begins")
        check_model((t for t in self._trained_tensors() if not t.is_meta), self.device)
        if self.settings.mode is Mode.CONSISTENT:
            check_deterministic(self.device)
        if self.settings.mode is Mode.ADAPTIVE and (self.recipe.phased or isinstance(optimizer, Chained)):
            raise TrainError(
                "mode: adaptive works with one optimizer that steps once per batch; use fixed or consistent"
            )

    def _trained_tensors(self) -> Iterator[Tensor]:
        for model in self.state.models.values():
            yield from model.parameters()
            yield from model.buffers()
        for optimizer in self.state.optimizers:
            yield from (p for group in optimizer.param_groups for p in group["params"])

    def _made(self, checkpoints: CheckpointSchedule) -> Loop:
        self.recipe.close()
        versions = {
            "elastane": elastane.__version__,
            "exchange": EXCHANGE,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        parts = LoopParts(
            self.settings,
            self.recipe,
            self.membership,
            self.state,
            self.reporter,
            self.position,
            self.agreement,
            checkpoints,
            Host(
                self.restore,
                self.progress.facts,
                self.progress.started,
                versions,
                lambda: highest_stored(self._store),
            ),
        )
        return Loop(parts)

    def _adapt(self, loop: Loop, loader: ElasticLoader) -> None:
        optimizer = self.state.optimizer
        assert optimizer is not None
        length, wishes, per_worker = loader.usable, self._wishes, self._wishes.max_per_worker
        if self.recipe.accumulate > 1:
            per_worker = int(min(per_worker or math.inf, loader.batch_size))
        max_batch = wishes.max_batch
        if self.settings.mode is Mode.ADAPTIVE:
            max_batch = self.declarations.max_batch(max_batch, loader.step_size)
        settings = AdaptationSettings(
            batch0=loader.step_size,
            mode=self.settings.mode.value,
            rule=wishes.batch_rule,
            rate_rule=wishes.lr_rule,
            epoch_steps=length / loader.step_size if length else 0.0,
            max_batch=max_batch,
            per_worker_max=per_worker,
        )
        adaptation = Adaptation(settings, loop.setups.current.layout, optimizer)
        loop.adapt(adaptation)
        self.state.add("adaptation", adaptation.state_dict, adaptation.load_state_dict)

    # What the script reports, and the target.

    def heard_loss(self, loss: float | Tensor) -> None:
        """The script has reported the loss of a part of a batch."""
        self.agreement.loss(loss)
        if self.target is not None:
            self.target.heard_loss(loss)

    def heard(self, figures: Mapping[str, float]) -> None:
        """The script has reported figures; the leader's are told."""
        self.reporter.metrics.update(figures)
        if self.target is not None:
            self.target.heard(figures)

    def judge_target(self) -> None:
        """At the end of an epoch, on all workers: see whether the job has reached its target."""
        target = self.target
        if target is None:
            return
        place = f"target, epoch {self.position.here}"
        target.settle(bool(self.loop.from_leader(place, target.judge)))
        if target.reached and self.membership.rank == 0:
            goal = target.goal
            self.outlet.print(f"elastane: the target is reached: {goal.metric} {goal.direction} {goal.value:g}")

    @property
    def target_reached(self) -> bool:
        """Whether training has ended before its last epoch."""
        return self.target is not None and self.target.reached

    def leave_target_to_script(self) -> None:
        """The script has a training loop of its own, which does not end by the declared target; its owner is told."""
        if self.target is not None:
            self.declarations.notes.append(
                f"target {self.target.goal.metric} of the job's spec: a framework's own training loop does not end by"
                " it; a callback of the framework can"
            )
        self.target = None

    # Checkpoints.

    def restore(self, generation: int) -> None:
        """Go back to the latest checkpoint, if there is one; its place is this generation's from then on."""
        if generation:
            self._store.own(generation)
        loaded = self._store.load()
        for reason in self._store.skipped:
            self.outlet.warn(f"a checkpoint was passed over: {reason}")
        if generation and self._snapshots is not None:
            loaded = newest(loaded, self._snapshots.load())
        if loaded is not None:
            self._restoring = True
            self.state.put(loaded.packed)
            self._restoring = False
            self._interval.failed(time.monotonic())

    def _put_random_state(self, state: Any) -> None:
        """Only a restart takes up the old streams: replicas must not draw the same numbers."""
        if self._restoring and self.settings.mode is not Mode.CONSISTENT:
            rng.put_picture(state, self.device)

    def _advice(self, error: BaseException) -> str:
        """What to write instead; of memory in a step the coordinator takes care."""
        return "" if self.elastic and exit_note.is_out_of_memory(error) else advice(error)

    def _rescue(self, error: BaseException) -> None:
        """Memory ran out: where all workers end so in one step, nothing of the training is lost by that."""
        if self._loop is None or not exit_note.is_out_of_memory(error):
            return
        try:
            left = [loader.took_by_error(error) for loader in self.loaders.values()]
            self._loop.memory_ran_out(in_step=any(left))
        except Exception as problem:  # there may be no memory for this, either
            self.outlet.warn(f"the state at this step could not be saved: {problem}")

    # The end.

    def ask_to_stop(self, why: str) -> None:
        """End training at the next step boundary."""
        self.membership.ask_to_stop(why)

    def finish(self) -> None:
        """Training is over: the last state is saved, and other workers may still need this one's part."""
        if self._loop is not None and not self._finished:
            self._finished = True
            self._loop.finish()
            self.outlet.end("finished", "", self.position.step)

    def stopped(self) -> None:
        """The script has ended because it was asked to."""
        self.outlet.end("stopped", self.membership.stop_cause() or "", self.position.step)

    def failed(self, cause: str) -> None:
        """The script has ended with an error."""
        self._finished = True
        self.outlet.end("failed", cause, self.position.step)
