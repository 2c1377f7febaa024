"""The library's front door: ``init`` finds out where the script runs, ``Job`` is what the script talks to.

The same script runs alone, under torchrun and under Elastane.  Nothing here trains: the loop does.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

import elastane
from elastane.models.learning_rate import LearningRateRule
from elastane.suggest import did_you_mean
from elastane.train.adapt.controller import Adaptation
from elastane.train.adapt.rules import BatchRule
from elastane.train.adapt.settings import AdaptationSettings
from elastane.train.coordinator import script_runner
from elastane.train.data import rng, source_of
from elastane.train.data.keys import Purpose, key_of
from elastane.train.data.rng import seed_all
from elastane.train.data.torch_settings import loader_settings
from elastane.train.errors import TrainError
from elastane.train.reduce.malloc_tuning import keep_freed_memory
from elastane.train.reports.events import Evaluated, Started
from elastane.train.run_folder import default_run
from elastane.train.script.chained import Chained
from elastane.train.script.environment import arrange_threads, membership_here
from elastane.train.script.loader import ElasticLoader
from elastane.train.script.optimizer_hooks import gate_optimizer, gate_scaler, gate_scheduler
from elastane.train.script.refusals import advice, refuse_optimizer, refuse_unsuited
from elastane.train.script.results import numbers, plain
from elastane.train.worker.async_save import AsyncSaver, SaveInterval
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.checkpoint import CheckpointStore
from elastane.train.worker.checkpoint_schedule import Keeper
from elastane.train.worker.event_sink import Outlet
from elastane.train.worker.loop import LoopSettings
from elastane.train.worker.phased import PhasedLoop
from elastane.train.worker.reductions import CallCounter
from elastane.train.worker.replica_state import Stateful, TrainingState
from elastane.train.worker.telemetry import Reporter

_Module = TypeVar("_Module", bound=nn.Module)
_Optimizer = TypeVar("_Optimizer", bound=torch.optim.Optimizer)
_Thing = TypeVar("_Thing")

DEFAULT_VIRTUAL = 8
EXCHANGE = 2
"""The format of what workers send each other; raised when it changes, so that two versions do not train together."""


def init(
    mode: str | None = None,
    *,
    virtual: int | None = None,
    seed: int = 0,
    run: str | Path | None = None,
    checkpoint_every: float | None = None,
    batch_rule: BatchRule | str | None = None,
    lr_rule: LearningRateRule | str | None = None,
    threads: int | None = None,
) -> Job:
    """Begin: alone, under torchrun or under Elastane.

    ``mode`` is ``fixed`` (the batch and the result as with one worker; the default), ``adaptive`` (batch and
    learning rate follow the workers) or ``consistent`` (bitwise the same for any number of workers; ``virtual``
    ranks share the batch).  ``run`` is where reports and checkpoints go, and where an earlier run is resumed
    from.  ``checkpoint_every`` is in seconds; by default it is chosen from what a checkpoint costs.
    """
    return Job(
        _mode(mode or os.environ.get("ELASTANE_MODE", "fixed")),
        virtual=virtual if virtual is not None else int(os.environ.get("ELASTANE_VIRTUAL", DEFAULT_VIRTUAL)),
        seed=seed,
        run=run,
        checkpoint_every=checkpoint_every if checkpoint_every is not None else _asked_interval(),
        batch_rule=batch_rule,
        lr_rule=lr_rule,
        threads=threads,
    )


def _asked_interval() -> float | None:
    """Seconds between checkpoints, as whoever started this job wants them."""
    given = os.environ.get("ELASTANE_CHECKPOINT_EVERY")
    return float(given) if given else None


def _mode(name: str) -> Mode:
    names = [mode.value for mode in Mode]
    if name not in names:
        raise TrainError(f"mode: there is no {name!r}{did_you_mean(name, names)} (known: {', '.join(names)})")
    return Mode(name)


class Job:
    """One training job, as one of its workers sees it."""

    def __init__(
        self,
        mode: Mode,
        *,
        virtual: int,
        seed: int,
        run: str | Path | None,
        checkpoint_every: float | None,
        batch_rule: BatchRule | str | None,
        lr_rule: LearningRateRule | str | None,
        threads: int | None,
    ) -> None:
        if virtual < 1:
            raise TrainError(f"virtual: must be 1 or more, not {virtual}")
        arrange_threads(mode, threads)
        keep_freed_memory()
        self.mode = mode
        self._state = TrainingState()
        self._membership = membership_here()
        script_runner.tell_cause.append(self._membership.goodbye)
        script_runner.advise.append(advice)
        script_runner.at_clean_end.append(self.finish)
        chosen = run or os.environ.get("ELASTANE_RUN")
        self.run = Path(chosen) if chosen else default_run(sys.argv[0], time.time())
        self._outlet = Outlet(self._membership, self.run)
        self._loop = PhasedLoop(
            LoopSettings(mode, seed, virtual if mode is Mode.CONSISTENT else 0),
            self._membership,
            self._state,
            Reporter(self._outlet.emit, time.time),
        )
        self._loop.extra_signature = {
            "elastane": elastane.__version__,
            "exchange": EXCHANGE,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        self._loop.restore_hook = self._restore
        self._loop.facts = self._facts
        self._loop.started = self._started
        self._store = CheckpointStore(self.run / "checkpoints")
        self._interval = SaveInterval(time.monotonic(), checkpoint_every)
        self._rules = (batch_rule, lr_rule)
        self._loaders: dict[str, ElasticLoader] = {}
        self._losses: dict[str, str | None] = {}
        self._schedulers = 0
        self._limits: dict[str, Any] = {}
        self._entered = False
        self._finished = False
        self._restoring = False
        self._epochs: int | None = None
        self._calls = CallCounter()
        self._stop_asked = False
        self._state.add("loop", self._loop.state_dict, self._loop.load_state_dict)
        self._state.add("reductions", self._loop.reductions.state_dict, self._loop.reductions.load_state_dict)
        self._state.add("random", rng.picture, self._put_random_state)
        self._catch_signals()
        if not self._membership.elastic:
            self._tell_the_end()

    # Where we are.

    @property
    def rank(self) -> int:
        """This worker's number; 0 leads.  It may change when members do."""
        return self._membership.rank

    @property
    def world(self) -> int:
        """How many workers train now."""
        return self._membership.world

    @property
    def is_leader(self) -> bool:
        """Whether this worker should write files and print."""
        return self._membership.rank == 0

    @property
    def elastic(self) -> bool:
        """Whether workers may come and go."""
        return self._membership.elastic

    @property
    def step(self) -> int:
        """Optimizer steps made so far."""
        return self._loop.step

    @property
    def epoch(self) -> int:
        """The present epoch."""
        return self._loop.here

    @property
    def stepped(self) -> bool:
        """Whether the last ``opt.step()`` was a real step, or only ended a part of one."""
        return self._loop.stepped

    @property
    def batch_size(self) -> int:
        """Samples per step over all workers at present."""
        adaptation = self._loop.adaptation
        return adaptation.total if adaptation is not None else 0

    # Setting up.

    def model(self, module: _Module, *, loss: str | None = None, name: str | None = None) -> _Module:
        """Train this module; returns it unchanged.

        ``loss`` is ``mean`` or ``sum``: whether the loss that the script computes for a batch is the mean or the sum
        over its samples.  Unsaid it is taken for a mean, with a warning if it looks like a sum.
        ``name`` is what it is saved under where there are several; ``model``, ``model2`` and so on.
        """
        if loss not in (None, "mean", "sum"):
            raise TrainError(f"job.model(loss=...): must be 'mean' or 'sum', not {loss!r}")
        self._refuse_late("model")
        models = self._state.models
        name = name or _numbered("model", len(models))
        if name in models or not name.isidentifier():
            raise TrainError(
                f"job.model(name=...): give each a name of its own, like a variable's, not {name!r}"
            )
        refuse_unsuited(module)
        models[name] = module
        self._losses[name] = loss
        if self.mode is Mode.ADAPTIVE:
            module.register_forward_pre_hook(self._remember_inputs, with_kwargs=True)
        return module

    def _remember_inputs(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Memory is tried out with inputs that were really seen."""
        if module.training:
            self._loop.last_inputs = kwargs if kwargs and not args else args

    def _refuse_late(self, what: str) -> None:
        if self._entered:
            raise TrainError(
                f"job.{what}(...) was called when training had begun; call it before job.epochs(...)"
            )

    def optimizer(
        self, optimizer: _Optimizer, *, max_grad_norm: float | None = None, repeats: bool = False
    ) -> _Optimizer:
        """Use this optimizer; ``max_grad_norm`` clips the mean gradient of each step.

        There may be several, each stepping on gradients of its own (a GAN).  ``repeats`` says that a lone optimizer
        may step several times for one batch.
        """
        self._refuse_late("optimizer")
        if self._loop.scaled:
            raise TrainError("job.scaler(...) works with one optimizer; train in bfloat16, which needs none")
        refuse_optimizer(optimizer)
        number = len(self._state.optimizers)
        self._state.optimizers.append(optimizer)
        if max_grad_norm is not None:
            self._clip_to(max_grad_norm, number)
        gate_optimizer(optimizer, self._loop, lambda: self.replaying)
        self._loop.phased = self._loop.phased or repeats
        return optimizer

    def scheduler(self, scheduler: _Thing, name: str | None = None) -> _Thing:
        """Save this LR scheduler with the job, and let its ``step`` act on whole steps only."""
        self._schedulers += 1
        name = name or _numbered("scheduler", self._schedulers - 1)
        stateful = _stateful(name, scheduler)
        gate_scheduler(scheduler, self._loop, lambda: self.replaying)
        # A scheduler's state is all it has, and now it has our gate, too.
        self._state.add(
            f"user.{name}",
            lambda: {key: value for key, value in stateful.state_dict().items() if key != "step"},
            stateful.load_state_dict,
        )
        return scheduler

    def scaler(self, scaler: _Thing) -> _Thing:
        """Use this ``GradScaler`` (call after ``job.optimizer``)."""
        if self._state.optimizer is None:
            raise TrainError("call job.optimizer(...) before job.scaler(...)")
        if self._loop.phased:
            raise TrainError("job.scaler(...) works with one optimizer; train in bfloat16, which needs none")
        gate_scaler(scaler, self._loop)
        return self.register("scaler", scaler)

    def accumulate(self, batches: int) -> None:
        """Make one optimizer step of so many batches of the loader; call it before training begins.

        Their gradients add up, as without the library, so the script divides its loss by ``batches``.  It calls
        ``opt.step()`` when ``job.step_due``, or for every batch: only the last one of a group makes a step.
        """
        if batches < 1:
            raise TrainError(f"job.accumulate: must be 1 or more, not {batches}")
        self._refuse_late("accumulate")
        self._loop.accumulate = batches

    @property
    def step_due(self) -> bool:
        """Whether the batch at hand is the last one before a step: call ``opt.step()`` then."""
        return self._loop.step_due

    def register(self, name: str, thing: _Thing) -> _Thing:
        """Save (and send to new workers) anything with ``state_dict`` and ``load_state_dict``."""
        stateful = _stateful(name, thing)
        self._state.add(f"user.{name}", stateful.state_dict, stateful.load_state_dict)
        return thing

    def loader(
        self,
        dataset: Any,
        batch_size: int | None = None,
        *,
        max_batch_size: int | None = None,
        max_per_worker: int | None = None,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        num_workers: int | None = None,
        seed_samples: bool = False,
        name: str = "data",
        **others: Any,
    ) -> ElasticLoader:
        """Loop over data; ``batch_size`` is the whole batch, what you would use on one device.

        In adaptive mode the first loader's batch grows up to ``max_batch_size``.  ``max_per_worker`` is what
        one worker can hold at once; more is accumulated.  ``dataset`` may be a ``DataLoader``, which then says the
        rest; ``others`` are further settings of torch's: ``drop_last``, ``batch_sampler``, ``pin_memory``, …
        """
        if name in self._loaders:
            raise TrainError(f"there are two loaders called {name!r}; give each a name of its own: name=...")
        said = loader_settings(
            name,
            dataset,
            batch_size,
            others,
            shuffle=shuffle,
            sampler=sampler,
            collate_fn=collate_fn,
            num_workers=num_workers,
        )
        if said.batch_size < 1:
            raise TrainError(f"loader {name!r}: batch_size must be 1 or more, not {said.batch_size}")
        stream = not (hasattr(said.dataset, "__getitem__") and hasattr(said.dataset, "__len__"))
        source = source_of(
            said.dataset,
            seed=self._loop.settings.seed,
            shuffle=(not stream and said.sampler is None) if said.shuffle is None else said.shuffle,
            sampler=said.sampler,
            collate_fn=said.collate_fn,
            num_workers=said.num_workers,
            seed_samples=seed_samples or self.mode is Mode.CONSISTENT,
            name=name,
        )
        first = not self._loaders
        loader = ElasticLoader(name, source, said, self._loop, self._enter, first)
        self._loaders[name] = loader
        self._state.add(f"loader.{name}", loader.state_dict, loader.load_state_dict)
        if first:
            self._limits = {"max_batch": max_batch_size, "per_worker_max": max_per_worker}
            if self._entered:
                self._adapt(loader)
        return loader

    # Training.

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left, from where the job stands."""
        self._epochs = count
        self._enter()
        loop = self._loop
        loop.here = loop.epoch
        while loop.here < count:
            yield loop.here
            loop.here += 1
            loop.epoch = max(loop.epoch, loop.here)
        self.finish()

    def finish(self) -> None:
        """Training is over; called by itself after the last epoch and at the end of the script."""
        if self._entered and not self._finished:
            self._finished = True
            self._loop.finish()
            self._outlet.end("finished", "", self._loop.step)

    @property
    def replaying(self) -> bool:
        """Whether the script is still finding its way back to where the job stands."""
        return self._loop.catching_up or any(loader.replaying for loader in self._loaders.values())

    def report(self, loss: Any = None, **metrics: Any) -> None:
        """Tell how training goes; losses are averaged over workers and steps."""
        if self.replaying:
            return
        if loss is not None:
            self._loop.agreement.loss(float(loss.detach() if isinstance(loss, torch.Tensor) else loss))
        if metrics:
            self._loop.reporter.metrics.update({key: float(value) for key, value in metrics.items()})

    def evaluate(self, measure: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run ``measure`` on one worker and give its result (numbers, text, lists, dicts) to all."""
        self._enter()
        key = self._evaluation_key()
        measured = False

        def run() -> Any:
            nonlocal measured
            measured = True
            training = [model for model in self._state.models.values() if model.training]
            with torch.no_grad():
                result = plain(measure(*args, **kwargs))
            for model in training:
                model.train()
            return result

        result = self.from_leader(key, run)
        if measured:
            self._outlet.emit(Evaluated(time.time(), self.epoch, self.step, numbers(result)))
        return result

    def _evaluation_key(self) -> str:
        """Between loops the script is replayed, and its evaluations count; inside one, only the step tells."""
        place = f"step {self.step}" if self._loop.inside else f"epoch {self.epoch}"
        return f"{place}, {self._calls.next(place)}"

    def from_leader(self, key: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` gives on the leader (JSON values), on every worker; call it at the same place on all.

        ``key`` names the result: asked for again under the same key, it is not computed again.
        """
        self._enter()
        return self._loop.from_leader(key, compute)

    def on_leader(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Run ``function`` on the leader alone; the others wait until it is done.

        For files and the like.  If the leader dies in it, the next one runs it again from the start; a worker that
        joins later does not run what is done.  Call it at the same place on all.
        """
        self._enter()

        def run() -> None:
            function(*args, **kwargs)

        self._loop.from_leader(f"on leader: {self._evaluation_key()}", run)

    def all_reduce(self, value: Any, how: str = "mean") -> Any:
        """The ``mean``, ``sum``, ``max`` or ``min`` of a number or small tensor over all workers, on each of them.

        In a loop over data call it behind ``opt.step()``: it is then over all parts of the batch, and complete when
        ``job.stepped``.  Elsewhere it is over one value per worker.  Call it at the same place on all.
        """
        self._enter()
        place = "before" if self._epochs is None else f"epoch {self.epoch}"
        return self._loop.reductions.reduce(value, how, place)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Clip the mean gradient of the step (not this worker's part of it) to ``max_norm``.

        Returned is the norm of this worker's part.  PyTorch's own ``clip_grad_norm_`` does the same in the loop body.
        With several optimizers, it is for the next step of those whose ``parameters`` these are.
        """
        return self._loop.clipping.norm(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Clip each number of the mean gradient of the step to [-``clip_value``, ``clip_value``]."""
        self._loop.clipping.value(parameters, clip_value)

    def _clip_to(self, norm: float, number: int) -> None:
        self._loop.norms[number] = norm
        if number == 0:
            self._loop.max_norm = norm

    def print(self, *values: Any) -> None:
        """Print on one worker only."""
        if self.is_leader and not self.replaying:
            self._outlet.print(" ".join(map(str, values)))

    # Inside.

    def _enter(self) -> None:
        if self._entered:
            return
        model, optimizer = self._state.model, self._state.optimizer
        if model is None or optimizer is None:
            raise TrainError("call job.model(...) and job.optimizer(...) before training begins")
        if self.mode is Mode.ADAPTIVE and (self._loop.phased or isinstance(optimizer, Chained)):
            raise TrainError(
                "mode: adaptive works with one optimizer that steps once per batch; use fixed or consistent"
            )
        self._entered = True
        self._declare_sums()
        self._loop.attach(model, *self._state.optimizers)
        for loader in list(self._loaders.values())[:1]:
            self._adapt(loader)
        reporter = self._loop.reporter
        self._loop.keeper = Keeper(AsyncSaver(self._store), self._interval, self._state, reporter)
        self._membership.join(self._loop)
        # A state that was taken over is that of a script further on: until ours is there, it only finds its way.
        self._loop.catching_up = self._loop.tick > 0
        if self.is_leader:
            self._loop.keeper.prepare()
        if self._loop.adaptation is not None:
            self._loop.resplit(self._loop.adaptation)
        if self.mode is not Mode.CONSISTENT and self.rank > 0:
            seed_all(key_of(Purpose.UNIT, self._loop.settings.seed, self.step, 1_000_000 + self.rank))
        self._loop.reporter.begin()
        if self.is_leader and not self._membership.elastic:
            self._outlet.emit(self._started())

    def _declare_sums(self) -> None:
        """Which optimizers train models whose loss is a sum over samples."""
        self._loop.summed_loss = "sum" in self._losses.values()
        self._loop.loss_guard.wanted = all(loss is None for loss in self._losses.values())
        if not self._loop.phased:
            return
        sums = {
            id(p)
            for name, model in self._state.models.items()
            for p in model.parameters()
            if self._losses[name] == "sum"
        }
        for number, optimizer in enumerate(self._state.optimizers):
            flags = {id(p) in sums for p in parameters_of(optimizer)}
            if len(flags) > 1:
                raise TrainError(
                    "job.model(loss=...): one optimizer trains models of which some have 'mean' and some 'sum'; "
                    "give all of them the same"
                )
            if True in flags:
                self._loop.sums.add(number)

    def _adapt(self, loader: ElasticLoader) -> None:
        optimizer = self._state.optimizer
        assert optimizer is not None
        length = loader.usable
        if self._loop.accumulate > 1:
            self._limits["per_worker_max"] = min(self._limits["per_worker_max"] or math.inf, loader.batch_size)
        settings = AdaptationSettings(
            batch0=loader.step_size,
            mode=self.mode.value,
            rule=self._rules[0],
            rate_rule=self._rules[1],
            epoch_steps=length / loader.step_size if length else 0.0,
            **self._limits,
        )
        self._loop.adaptation = adaptation = Adaptation(settings, self._loop.layout, optimizer)
        self._state.add("adaptation", adaptation.state_dict, adaptation.load_state_dict)

    def _restore(self, generation: int) -> None:
        if generation:
            self._store.own(generation)
        loaded = self._store.load() if self._store.directory.exists() else None
        for reason in self._store.skipped:
            self._outlet.warn(f"a checkpoint was passed over: {reason}")
        if loaded is not None:
            self._restoring = True
            self._state.put(loaded.packed)
            self._restoring = False
            self._interval.failed(time.monotonic())

    def _put_random_state(self, state: Any) -> None:
        """Only a restart takes up the old streams: replicas must not draw the same numbers."""
        if self._restoring and self.mode is not Mode.CONSISTENT:
            rng.put_picture(state)

    def _started(self) -> Started:
        first = next(iter(self._loaders.values()), None)
        return Started(
            time.time(),
            str(self.run),
            Path(sys.argv[0]).name,
            self.mode.value,
            self.world,
            first.step_size if first is not None else 0,
            self._loop.settings.seed,
            {"elastane": elastane.__version__, "torch": torch.__version__},
        )

    def _facts(self) -> dict[str, Any]:
        loop, m = self._loop, self._membership
        first = next(iter(self._loaders.values()), None)
        fraction = self._fraction(first)
        facts: dict[str, Any] = {
            "step": loop.step,
            "epoch": min(loop.epoch, self._epochs - 1) if self._epochs else loop.epoch,
            "epochs": self._epochs,
            "fraction": fraction,
            "workers": m.world,
            "nodes": m.nodes,
            "generation": m.generation,
            "batch": self.batch_size,
        }
        if loop.adaptation is None:
            return facts
        hints = loop.adaptation.hints()
        return facts | {
            "progress": hints["progress"],
            "per_worker": hints["batch"]["per_worker"],
            "accumulation": hints["batch"]["extra"],
            "noise": hints["noise"],
            "gain": hints["gain"],
            "efficiency": hints["efficiency"],
            "goodput": hints["goodput"],
            "lr_factor": hints["rate_factor"],
        }

    def _fraction(self, first: ElasticLoader | None) -> float | None:
        """How much of the whole run is done."""
        if not self._epochs or first is None or not first.source.length:
            return None
        if self.mode is Mode.ADAPTIVE and self._loop.adaptation is not None:
            steps = self._epochs * (first.usable or 0) / first.step_size
            return min(1.0, self._loop.adaptation.progress / steps)
        inside = min(1.0, first.position / (first.usable or 1))
        return min(1.0, (self._loop.epoch + inside) / self._epochs)

    def _tell_the_end(self) -> None:
        """Without a supervisor, this process itself notes how the run ended."""
        hook = sys.excepthook

        def note(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            self._finished = True
            self._outlet.end("failed", f"{kind.__name__}: {error}", self._loop.step)
            if isinstance(error, TrainError):
                print(f"elastane: error: {error}", file=sys.stderr)  # noqa: T201
            else:
                hook(kind, error, trace)
                if advice(error):
                    print(f"elastane: {advice(error)}", file=sys.stderr)  # noqa: T201

        def ended() -> None:
            if self._stop_asked:
                self._outlet.end("stopped", self._membership.stop_cause() or "", self._loop.step)
            else:
                self.finish()

        sys.excepthook = note
        atexit.register(ended)

    def _catch_signals(self) -> None:
        """A first SIGTERM (or Ctrl-C, alone) ends training at a step boundary, with a checkpoint."""

        def stop(number: int, _frame: Any) -> None:
            if self._stop_asked or not self._entered:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self._stop_asked = True
            self._membership.ask_to_stop(signal.Signals(number).name)

        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, stop)
            if not self._membership.elastic:
                signal.signal(signal.SIGINT, stop)


def parameters_of(optimizer: torch.optim.Optimizer) -> Iterator[nn.Parameter]:
    """Every parameter that an optimizer steps."""
    return (p for group in optimizer.param_groups for p in group["params"])


def _numbered(word: str, before: int) -> str:
    """``word`` for the first of its kind, then with a number."""
    return f"{word}{before + 1}" if before else word


def _stateful(name: str, thing: Any) -> Stateful:
    if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
        raise TrainError(f"{name!r} cannot be saved: {type(thing).__name__} has no state_dict/load_state_dict")
    stateful: Stateful = thing
    return stateful
