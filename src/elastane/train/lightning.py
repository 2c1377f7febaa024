"""Lightning's ``Trainer`` as an elastic job: ``L.Trainer(strategy=ElasticStrategy(job), …)``, and a loader of the job.

Every worker runs a ``Trainer`` of one device, ``job.device``; Lightning sees no others.  The loader (``job.loader``)
gives each worker its part of each step, the strategy computes it, sums gradients and steps the optimizer.  A newcomer,
or a run that is taken up again, begins in the middle of an epoch.

* ``on_before_optimizer_step`` and gradient clipping see the mean gradient of all workers.
* Validation runs on every worker alike, over all of its data, so that callbacks decide the same everywhere; they must
  not decide by training metrics, which are those of this worker's part.
* ``ElasticStrategy(job, loss="sum")`` says that ``training_step`` returns a sum over its samples, not their mean.
* Checkpoints and logs are written by the leader.  To go on after an end, use the job's own run, not ``ckpt_path``.

Limits: automatic optimization with one optimizer; modes ``fixed`` and ``consistent`` (Lightning wants to know how many
steps an epoch has); no ``accumulate_grad_batches`` (give the loader ``batch_size`` and ``max_per_worker``), no
``limit_train_batches``, no loss scaling (``16-mixed``; ``bf16`` works).  Data that takes long to prepare belongs into
``prepare_data`` or ``setup``: the others wait for what a newcomer does after that.
"""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

import torch

from elastane.train.errors import TrainError
from elastane.train.script.api import Job
from elastane.train.script.framework_loop import WholeSteps
from elastane.train.script.loader import ElasticLoader
from elastane.train.script.refusals import checked_loss
from elastane.train.worker.batch_split import Mode

try:
    _strategies: Any = importlib.import_module("lightning.pytorch.strategies")
    _loggers: Any = importlib.import_module("lightning.pytorch.loggers.utilities")
    _rank_zero: Any = importlib.import_module("lightning.fabric.utilities.rank_zero")
except ImportError as error:
    raise TrainError(f"elastane.train.lightning needs lightning (pip install lightning): {error}") from error
_Accelerator: Any = importlib.import_module("lightning.pytorch.accelerators").Accelerator
_SingleDeviceStrategy: Any = _strategies.SingleDeviceStrategy


_KNOWN_KINDS = ("cpu", "cuda", "mps")
"""Devices that Lightning has an accelerator for."""


class _OtherAccelerator(_Accelerator):  # type: ignore[misc]
    """A kind of device that only PyTorch knows: there is one, and the job has chosen it."""

    def setup_device(self, device: torch.device) -> None:
        """The job uses it already."""

    def get_device_stats(self, device: Any) -> dict[str, Any]:  # noqa: ARG002
        """Nothing is known."""
        return {}

    def teardown(self) -> None:
        """Nothing was set up."""

    @staticmethod
    def parse_devices(devices: Any) -> Any:  # noqa: ARG004
        """One, whatever was asked for."""
        return 1

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        """As many as were parsed, on the accelerator of this process."""
        here = torch.accelerator.current_accelerator()
        return [here or torch.device("cpu")] * int(devices)

    @staticmethod
    def auto_device_count() -> int:
        """A worker has one."""
        return 1

    @staticmethod
    def is_available() -> bool:
        """The job has found it."""
        return True

    @staticmethod
    def name() -> str:
        """For Lightning's log."""
        return "elastane"


class ElasticStrategy(_SingleDeviceStrategy):  # type: ignore[misc]
    """One of several workers."""

    strategy_name = "elastane"

    def __init__(
        self, job: Job, device: str | torch.device | None = None, *, loss: str | None = None, **others: Any
    ) -> None:
        here = torch.device(device) if device is not None else job.device
        if here.type not in _KNOWN_KINDS:
            others.setdefault("accelerator", _OtherAccelerator())
        super().__init__(device=here, **others)
        self.job = job
        self._loss = checked_loss("ElasticStrategy", loss)
        self._steps: WholeSteps | None = None
        self._trainer: Any = None
        self._end_unit: Callable[[], Any] = job.finish
        self._on_sigterm: Any = signal.SIG_DFL
        self._stepping = False

    # Setting up.

    def setup(self, trainer: Any) -> None:
        """Hand model, optimizer and schedulers to the job."""
        super().setup(trainer)
        self._trainer = trainer
        self._follow_lead()
        if trainer.state.fn != "fit":
            return
        _check(trainer, self)
        self._on_sigterm = signal.getsignal(signal.SIGTERM)
        self.job.model(self.lightning_module, loss=self._loss)
        self._take_over(self.optimizers[0])
        for index, config in enumerate(self.lr_scheduler_configs):
            self.job.register(f"scheduler.{index}", config.scheduler)
        self.job.register("callbacks", _Memory(trainer))

    def _take_over(self, optimizer: Any) -> None:
        """The job steps the optimizer, when it has the mean gradient; hooks are called right before."""
        trainer, raw = self._trainer, optimizer.step
        max_norm = None
        if trainer.gradient_clip_algorithm in (None, "norm"):
            max_norm, trainer.gradient_clip_val = trainer.gradient_clip_val, None

        def step(_self: Any) -> Any:
            if self._stepping:  # a newcomer that follows the others must not see hooks that they have seen
                self.precision_plugin._after_closure(self.lightning_module, optimizer)
            return raw()

        optimizer.step = MethodType(step, optimizer)
        self.job.optimizer(optimizer, max_grad_norm=max_norm)
        self._end_unit = optimizer.step
        # Schedulers look for their own mark on it, and warn; what they did to it is behind ours.
        optimizer.step.__func__._wrapped_by_lr_sched = True

    def process_dataloader(self, dataloader: Any) -> Any:
        """The job's loader is the last thing to come: now become a member, and let Lightning know where it is."""
        if not isinstance(dataloader, ElasticLoader):
            return dataloader
        steps = self._steps = WholeSteps(self.job, dataloader, begun=self._begin_pass)
        steps.begin_epoch(0, self._epochs)
        if (
            self.job.epoch < self._epochs and steps.fraction == 1.0
        ):  # the others have done everything that there is to do in this epoch
            steps.end_pass()
            steps.begin_epoch(self.job.epoch + 1, self._epochs)
        self._follow_lead()
        fit = self._trainer.fit_loop
        _place(fit.epoch_progress.current, self.job.epoch)
        _place(fit.epoch_progress.total, self.job.epoch)
        _place(fit.epoch_loop.automatic_optimization.optim_progress.optimizer.step.total, self.job.step)
        fit.epoch_loop._batches_that_stepped = self.job.step
        if self.job.elastic and self._trainer.enable_autolog_hparams:
            _loggers._log_hyperparams(self._trainer)  # Lightning tried before anybody knew who leads
        return steps

    @property
    def _epochs(self) -> int:
        limit = self._trainer.fit_loop.max_epochs
        return sys.maxsize if limit in (None, -1) else int(limit)

    def _begin_pass(self) -> None:
        assert self._steps is not None
        self._steps.begin_epoch(self._trainer.current_epoch, self._epochs)
        fit = self._trainer.fit_loop
        done = self._steps.loader.position // self._steps.loader.batch_size
        _place(fit.epoch_loop.batch_progress.current, done)
        _place(fit.epoch_loop.batch_progress.total, self.job.step)
        fit._data_fetcher.fetched = done

    # Training.

    def on_train_start(self) -> None:
        """Signals are for the job, which ends at a boundary; Lightning would leave the others alone."""
        if self._steps is None:
            raise TrainError("trainer.fit: give it a loader of the job, job.loader(dataset, batch_size)")
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGTERM, self._on_sigterm)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        """Who leads may have changed."""
        self._follow_lead()

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], *_args: Any, **_others: Any) -> Any:
        """All units that this worker owes to one step, and the step itself."""
        assert self._steps is not None
        loss = self._unit(closure)
        self._stepping = True
        self._steps.finish(self._end_unit, lambda batch: self._unit(self._closure(batch, optimizer)))
        self._stepping = False
        return loss

    def _unit(self, closure: Callable[[], Any]) -> Any:
        loss = closure()
        if loss is not None:
            self.job.report(loss=loss)
        return loss

    def _closure(self, batch: Any, optimizer: Any) -> Callable[[], Any]:
        """What Lightning makes of a batch, for one that it has not seen."""
        loop = self._trainer.fit_loop.epoch_loop
        batch = self.precision_plugin.convert_input(batch)
        batch = self.batch_to_device(self.lightning_module._on_before_batch_transfer(batch, dataloader_idx=0))
        given = loop._build_kwargs(OrderedDict(), batch, loop.batch_idx)
        closure: Callable[[], Any] = loop.automatic_optimization._make_closure(given, optimizer, loop.batch_idx)
        return closure

    def on_train_end(self) -> None:
        """Nobody leaves before the others have what they need."""
        assert self._steps is not None
        self._steps.close()

    # Leading.

    @property
    def is_global_zero(self) -> bool:
        """Whether this worker writes logs and checkpoints."""
        return self.global_rank == 0

    def _follow_lead(self) -> None:
        known = self._steps is not None or not self.job.elastic
        # Until a worker is a member it must not think that it leads.
        self.global_rank = self.job.rank if known else 1
        _rank_zero.rank_zero_only.rank = self.global_rank


def _place(tracker: Any, count: int) -> None:
    """So many are behind us."""
    for name in ("ready", "started", "processed", "completed"):
        if hasattr(tracker, name):
            setattr(tracker, name, count)


def _check(trainer: Any, strategy: ElasticStrategy) -> None:
    if not trainer.lightning_module.automatic_optimization:
        raise TrainError("ElasticStrategy: manual optimization is not supported")
    if strategy.job.mode is Mode.ADAPTIVE:
        raise TrainError("ElasticStrategy: mode 'adaptive' is not supported, only 'fixed' and 'consistent'")
    if getattr(strategy.precision_plugin, "scaler", None) is not None:
        raise TrainError("Trainer(precision): loss scaling is not supported; use bf16-mixed")
    wanted = {
        "accumulate_grad_batches": 1,
        "limit_train_batches": 1.0,
        "overfit_batches": 0.0,
        "reload_dataloaders_every_n_epochs": 0,
    }
    for name, value in wanted.items():
        if getattr(trainer, name) != value:
            raise TrainError(f"Trainer({name}={getattr(trainer, name)!r}): not supported by ElasticStrategy")


class _Memory:
    """The state of Lightning callbacks, as part of the job's state."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        return {each.state_key: each.state_dict() for each in self._trainer.callbacks}

    def load_state_dict(self, states: Mapping[str, Any]) -> None:
        for each in self._trainer.callbacks:
            if states.get(each.state_key):
                each.load_state_dict(states[each.state_key])
