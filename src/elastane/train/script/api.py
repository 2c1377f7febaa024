"""The library's front door: ``init`` finds out where the script runs, ``Job`` is what the script talks to.

The same script runs alone, under torchrun and under Elastane.  Nothing here trains: the loop does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils.data import DataLoader

from elastane.jobs.declared import Declared
from elastane.models.learning_rate import LearningRateRule
from elastane.suggest import did_you_mean
from elastane.train.adapt.rules import BatchRule
from elastane.train.data import source_of
from elastane.train.data.torch_settings import loader_settings
from elastane.train.device import choose
from elastane.train.device_checks import check_first_batch
from elastane.train.errors import TrainError
from elastane.train.reduce.malloc_tuning import keep_freed_memory
from elastane.train.reports.events import Evaluated
from elastane.train.script.environment import arrange_threads
from elastane.train.script.loader import ElasticLoader
from elastane.train.script.optimizer_hooks import gate_optimizer, gate_scaler, gate_scheduler
from elastane.train.script.process import ProcessHooks
from elastane.train.script.refusals import checked_loss, refuse_optimizer, refuse_unsuited
from elastane.train.script.results import numbers, plain
from elastane.train.script.session import AdaptWishes, Session, SessionOptions
from elastane.train.traffic import TRAFFIC, traffic_of
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.reductions import CallCounter
from elastane.train.worker.replica_state import Stateful
from elastane.train.worker.step_cut import LoopSettings

_Module = TypeVar("_Module", bound=nn.Module)
_Optimizer = TypeVar("_Optimizer", bound=torch.optim.Optimizer)
_Thing = TypeVar("_Thing")

DEFAULT_VIRTUAL = 8
"""Virtual ranks that share the batch in consistent mode."""


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
    device: str | torch.device | None = None,
    traffic: str | None = None,
) -> Job:
    """Begin a job, which runs alone, under torchrun or under Elastane.

    ``mode`` is ``fixed`` (the batch and the result as with one worker; the default), ``adaptive`` (batch and
    learning rate follow the workers) or ``consistent`` (bitwise the same for any number of workers; ``virtual``
    ranks share the batch).  ``run`` is where reports and checkpoints go, and where an earlier run is resumed
    from.  ``checkpoint_every`` is in seconds; by default it is chosen from what a checkpoint costs.  ``device`` is
    where to train, by default an accelerator if this worker has one: put the model on ``job.device``.  ``traffic`` is
    the type in which gradients travel between workers: ``fp32`` (the default), or ``bf16`` for half the bytes.
    """
    chosen = _mode(mode or os.environ.get("ELASTANE_MODE", "fixed"))
    shared = virtual if virtual is not None else int(os.environ.get("ELASTANE_VIRTUAL", DEFAULT_VIRTUAL))
    if shared < 1:
        raise TrainError(f"virtual: must be 1 or more, not {shared}")
    narrow = traffic_of(traffic or os.environ.get(TRAFFIC), consistent=chosen is Mode.CONSISTENT)
    here = choose(device)
    here.use()
    arrange_threads(chosen, threads)
    if here.is_cpu:
        keep_freed_memory()
    return Job(
        SessionOptions(
            LoopSettings(chosen, seed, shared if chosen is Mode.CONSISTENT else 0, narrow),
            run,
            checkpoint_every if checkpoint_every is not None else _asked_interval(),
            AdaptWishes(batch_rule, lr_rule),
            here,
        )
    )


def _asked_interval() -> float | None:
    """Seconds between checkpoints, if the job was started with a wish for them."""
    given = os.environ.get("ELASTANE_CHECKPOINT_EVERY")
    return float(given) if given else None


def _mode(name: str) -> Mode:
    names = [mode.value for mode in Mode]
    if name not in names:
        raise TrainError(f"mode: there is no {name!r}{did_you_mean(name, names)} (known: {', '.join(names)})")
    return Mode(name)


class Job:
    """One training job, as one of its workers sees it."""

    def __init__(self, options: SessionOptions) -> None:
        self._session = Session(options)
        self.mode = options.settings.mode
        self.run = self._session.run
        self._schedulers = 0
        self._calls = CallCounter()
        ProcessHooks(self._session).install()

    # Where we are.

    @property
    def device(self) -> torch.device:
        """Where this worker trains: the model belongs there; batches of ``job.loader`` come there by themselves."""
        return self._session.device.as_torch()

    @property
    def rank(self) -> int:
        """This worker's number; 0 leads.  It may change when members do."""
        return self._session.membership.rank

    @property
    def world(self) -> int:
        """How many workers train now."""
        return self._session.membership.world

    @property
    def is_leader(self) -> bool:
        """Whether this worker should write files and print."""
        return self._session.membership.rank == 0

    @property
    def elastic(self) -> bool:
        """Whether workers may come and go."""
        return self._session.membership.elastic

    @property
    def step(self) -> int:
        """Optimizer steps made so far."""
        return self._session.position.step

    @property
    def epoch(self) -> int:
        """The epoch that the script is in."""
        return self._session.position.here

    @property
    def stepped(self) -> bool:
        """Whether the last ``opt.step()`` was a real step, or only ended a part of one."""
        return self._session.stepped

    @property
    def batch_size(self) -> int:
        """Samples per step over all workers at present."""
        return self._session.progress.batch_size

    @property
    def declared(self) -> Declared:
        """What the owner declared in the job's spec: epochs, target and batch, None where nothing was."""
        return self._session.declarations.said

    # Setting up.

    def model(self, module: _Module, *, loss: str | None = None, name: str | None = None) -> _Module:
        """Train this module; returns it unchanged.

        ``loss`` is ``mean`` or ``sum``: whether the loss that the script computes for a batch is the mean or the sum
        over its samples.  Unsaid it is taken for a mean, with a warning if it looks like a sum.
        ``name`` is what it is saved under where there are several; ``model``, ``model2`` and so on.
        """
        kind = checked_loss("job.model", loss)
        self._refuse_late("model")
        models = self._session.state.models
        name = name or _numbered("model", len(models))
        if name in models or not name.isidentifier():
            raise TrainError(
                f"job.model(name=...): give each a name of its own, like a variable's, not {name!r}"
            )
        refuse_unsuited(module)
        check_first_batch(module, self._session.device)
        models[name] = module
        self._session.recipe.loss_of(name, kind)
        if self.mode is Mode.ADAPTIVE:
            module.register_forward_pre_hook(self._remember_inputs, with_kwargs=True)
        return module

    def _remember_inputs(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """Memory is tried out with inputs that were really seen."""
        if module.training:
            self._session.recipe.saw(kwargs if kwargs and not args else args)

    def _refuse_late(self, what: str) -> None:
        if self._session.entered:
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
        session = self._session
        if session.recipe.scaled:
            raise TrainError("job.scaler(...) works with one optimizer; train in bfloat16, which needs none")
        refuse_optimizer(optimizer)
        session.state.optimizers.append(optimizer)
        number = gate_optimizer(optimizer, session, repeats=repeats)
        if max_grad_norm is not None:
            session.recipe.clip(number, max_grad_norm)
        return optimizer

    def scheduler(self, scheduler: _Thing, name: str | None = None) -> _Thing:
        """Save this LR scheduler with the job, and let its ``step`` act on whole steps only."""
        self._schedulers += 1
        name = name or _numbered("scheduler", self._schedulers - 1)
        stateful = _stateful(name, scheduler)
        gate_scheduler(scheduler, self._session)
        # A scheduler's state is all it has, and now it has our gate, too.
        self._session.state.add(
            f"user.{name}",
            lambda: {key: value for key, value in stateful.state_dict().items() if key != "step"},
            stateful.load_state_dict,
        )
        return scheduler

    def scaler(self, scaler: _Thing) -> _Thing:
        """Use this ``GradScaler`` (call after ``job.optimizer``)."""
        if self._session.state.optimizer is None:
            raise TrainError("call job.optimizer(...) before job.scaler(...)")
        if self._session.recipe.phased:
            raise TrainError("job.scaler(...) works with one optimizer; train in bfloat16, which needs none")
        gate_scaler(scaler, self._session)
        return self.register("scaler", scaler)

    def accumulate(self, batches: int) -> None:
        """Make one optimizer step of so many batches of the loader; call it before training begins.

        Their gradients add up, as without the library, so the script divides its loss by ``batches``.  It calls
        ``opt.step()`` when ``job.step_due``, or for every batch: only the last one of a group makes a step.
        """
        if batches < 1:
            raise TrainError(f"job.accumulate: must be 1 or more, not {batches}")
        self._refuse_late("accumulate")
        self._session.recipe.accumulate_over(batches)

    @property
    def step_due(self) -> bool:
        """Whether the batch at hand is the last one before a step: call ``opt.step()`` then."""
        return self._session.step_due

    def register(self, name: str, thing: _Thing) -> _Thing:
        """Save (and send to new workers) anything with ``state_dict`` and ``load_state_dict``."""
        stateful = _stateful(name, thing)
        self._session.state.add(f"user.{name}", stateful.state_dict, stateful.load_state_dict)
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

        Where the script does not say it, the first loader takes ``batch_size``, and in adaptive mode
        ``max_batch_size``, from the job's spec.

        In adaptive mode the first loader's batch grows up to ``max_batch_size``.  ``max_per_worker`` is what
        one worker can hold at once; more is accumulated.  ``dataset`` may be a ``DataLoader``, which then says the
        rest; ``others`` are further settings of torch's: ``drop_last``, ``batch_sampler``, ``pin_memory``, …
        """
        if name in self._session.loaders:
            raise TrainError(f"there are two loaders called {name!r}; give each a name of its own: name=...")
        first = not self._session.loaders
        if first and not isinstance(dataset, DataLoader) and others.get("batch_sampler") is None:
            batch_size = self._session.declarations.batch_size(batch_size)
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
            seed=self._session.settings.seed,
            shuffle=(not stream and said.sampler is None) if said.shuffle is None else said.shuffle,
            sampler=said.sampler,
            collate_fn=said.collate_fn,
            num_workers=said.num_workers,
            seed_samples=seed_samples or self.mode is Mode.CONSISTENT,
            name=name,
        )
        loader = ElasticLoader(name, source, said, self._session, first)
        self._session.add_loader(loader, max_batch_size, max_per_worker)
        return loader

    # Training.

    def epochs(self, count: int | None = None) -> Iterator[int]:
        """The epochs that are left, from where the job stands; without a number as many as the job's spec declares.

        They end early when a metric reaches the target that the spec declares.
        """
        session = self._session
        total = session.declarations.epochs(count)
        session.progress.expect(total)
        session.enter()
        session.tell_differences()
        position = session.position
        position.begin_epochs()
        while position.here < total and not session.target_reached:
            yield position.here
            position.end_epoch()
            session.judge_target()
        self.finish()

    def finish(self) -> None:
        """Training is over; called by itself after the last epoch and at the end of the script."""
        self._session.finish()

    @property
    def replaying(self) -> bool:
        """Whether the script is still finding its way back to where the job stands."""
        return self._session.replaying

    def report(self, loss: Any = None, **metrics: Any) -> None:
        """Tell how training goes; losses are averaged over workers and steps."""
        if self.replaying:
            return
        if loss is not None:
            self._session.heard_loss(_kept_there(loss))
        if metrics:
            self._session.heard({key: float(value) for key, value in metrics.items()})

    def evaluate(self, measure: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run ``measure`` on one worker and give its result (numbers, text, lists, dicts) to all."""
        loop = self._session.enter()
        key = self._evaluation_key()
        measured = False

        def run() -> Any:
            nonlocal measured
            measured = True
            training = [model for model in self._session.state.models.values() if model.training]
            with torch.no_grad():
                result = plain(measure(*args, **kwargs))
            for model in training:
                model.train()
            return result

        result = loop.from_leader(key, run)
        if measured:
            self._session.outlet.emit(Evaluated(time.time(), self.epoch, self.step, numbers(result)))
        if self._session.target is not None:
            self._session.target.heard(numbers(result))
        return result

    def _evaluation_key(self) -> str:
        """Between loops the script is replayed, and its evaluations count; inside one, only the step tells."""
        place = f"step {self.step}" if self._session.position.inside else f"epoch {self.epoch}"
        return f"{place}, {self._calls.next(place)}"

    def from_leader(self, key: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` gives on the leader (JSON values), on every worker; call it at the same place on all.

        ``key`` names the result: asked for again under the same key, it is not computed again.
        """
        return self._session.enter().from_leader(key, compute)

    def on_leader(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Run ``function`` on the leader alone; the others wait until it is done.

        For files and the like.  If the leader dies in it, the next one runs it again from the start; a worker that
        joins later does not run what is done.  Call it at the same place on all.
        """
        loop = self._session.enter()

        def run() -> None:
            function(*args, **kwargs)

        loop.from_leader(f"on leader: {self._evaluation_key()}", run)

    def all_reduce(self, value: Any, how: str = "mean") -> Any:
        """The ``mean``, ``sum``, ``max`` or ``min`` of a number or small tensor over all workers, on each of them.

        In a loop over data call it behind ``opt.step()``: it is then over all parts of the batch, and complete when
        ``job.stepped``.  Elsewhere it is over one value per worker.  Call it at the same place on all.
        """
        loop = self._session.enter()
        place = "before" if self._session.progress.epochs is None else f"epoch {self.epoch}"
        return loop.reductions.reduce(value, how, place)

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Clip the mean gradient of the step (not this worker's part of it) to ``max_norm``.

        Returned is the norm of this worker's part.  PyTorch's own ``clip_grad_norm_`` does the same in the loop body.
        With several optimizers, it is for the next step of those whose ``parameters`` these are.
        """
        return self._session.recipe.clipping.norm(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters: Any, clip_value: float) -> None:
        """Clip each number of the mean gradient of the step to [-``clip_value``, ``clip_value``]."""
        self._session.recipe.clipping.value(parameters, clip_value)

    def print(self, *values: Any) -> None:
        """Print on one worker only."""
        if self.is_leader and not self.replaying:
            self._session.outlet.print(" ".join(map(str, values)))


def _kept_there(loss: Any) -> float | torch.Tensor:
    """A loss as a number, unless it is on an accelerator: reading it would be a wait in the middle of a step."""
    if isinstance(loss, torch.Tensor) and not loss.is_cpu:
        return loss.detach().to(torch.float64, copy=True)
    return float(loss.detach() if isinstance(loss, torch.Tensor) else loss)


def _numbered(word: str, before: int) -> str:
    """``word`` for the first of its kind, then with a number."""
    return f"{word}{before + 1}" if before else word


def _stateful(name: str, thing: Any) -> Stateful:
    if not (hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")):
        raise TrainError(f"{name!r} cannot be saved: {type(thing).__name__} has no state_dict/load_state_dict")
    stateful: Stateful = thing
    return stateful
