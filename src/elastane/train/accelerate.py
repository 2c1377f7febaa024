"""Hugging Face Accelerate's ``Accelerator`` as an elastic job: ``from elastane.train.accelerate import Accelerator``.

Every worker runs an ``Accelerator`` of one process; ``prepare`` hands model, optimizer, scheduler and the training
loader to the job, which divides data, sums gradients and steps.

* The batch of a step is the loader's ``batch_size`` times ``gradient_accumulation_steps``, with any number of workers.
* The training loader is the first shuffled ``DataLoader`` given to ``prepare``, else the first.  The others are read
  whole by every worker, so ``gather_for_metrics`` returns what it is given.
* ``Accelerator(loss="sum")`` says that a batch's loss is a sum over its samples, not their mean.
* ``for epoch in accelerator.job.epochs(n)`` spares newcomers the evaluations of past epochs; ``range(n)`` works, too.
* Models, and the batches of all prepared loaders, go to ``job.device``, which is ``accelerator.device``.
* ``save_state``, ``save_model`` and ``save`` write on the leader.  To go on after an end, use the job's own run.

Limits: ``fp16`` (loss scaling), trackers (``log_with``), DeepSpeed, FSDP, Megatron and starting with ``accelerate
launch`` on several processes are refused; ``bf16`` works.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.utils.data import DataLoader, SequentialSampler

from elastane.train.accelerate_device import place_accelerate
from elastane.train.batch_mover import BatchMover
from elastane.train.device import Device
from elastane.train.errors import TrainError
from elastane.train.script.api import Job, init
from elastane.train.script.refusals import checked_loss

try:
    _accelerate: Any = importlib.import_module("accelerate")
except ImportError as error:
    raise TrainError(f"elastane.train.accelerate needs accelerate (pip install accelerate): {error}") from error
_Accelerator: Any = _accelerate.Accelerator

_ACCEPTED = {
    "device_placement",
    "split_batches",
    "mixed_precision",
    "cpu",
    "dataloader_config",
    "rng_types",
    "project_dir",
    "project_config",
    "step_scheduler_with_optimizer",
}
_INSTEAD = {
    "log_with": "write accelerator.log({...}), which reports to the job",
    "gradient_accumulation_plugin": "write Accelerator(gradient_accumulation_steps=...)",
}


class Accelerator(_Accelerator):  # type: ignore[misc]
    """An ``Accelerator`` that is one of several workers; ``job`` is ``et.init()`` unless given."""

    def __init__(
        self,
        *,
        job: Job | None = None,
        gradient_accumulation_steps: int = 1,
        loss: str | None = None,
        **others: Any,
    ) -> None:
        _check(others)
        self._loss = checked_loss("Accelerator", loss)
        self.job = job if job is not None else init()
        self._accumulation = gradient_accumulation_steps
        self._training: Any = None
        self._shuffled = False
        self._unstepped = False
        super().__init__(**{**others, "cpu": True})  # which looks for no devices: the job has one
        place_accelerate(self.job.device)

    # Setting up.

    def prepare(self, *things: Any, **_others: Any) -> Any:
        """Hand each thing to the job; returned in the order given."""
        loaders = [each for each in things if isinstance(each, DataLoader)]
        shuffled = [each for each in loaders if not isinstance(each.sampler, SequentialSampler)]
        chosen = (shuffled or loaders)[:1]
        found = tuple(self._prepared(each, each in chosen) for each in things)
        return found[0] if len(found) == 1 else found

    def _prepared(self, thing: Any, chosen: bool) -> Any:
        if isinstance(thing, torch.nn.Module):
            return self.job.model(self.prepare_model(thing), loss=self._loss)
        if isinstance(thing, torch.optim.Optimizer):
            return self._optimizer(thing)
        if isinstance(thing, DataLoader):
            return self._loader(thing, chosen)
        if hasattr(thing, "step") and hasattr(thing, "state_dict"):
            self._schedulers.append(_Scheduler(thing))
            return self.job.scheduler(thing)
        return thing

    def _optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        self._optimizers.append(optimizer)
        end_unit = self.job.optimizer(optimizer).step

        def step(_self: Any, closure: Any = None) -> None:
            end_unit(closure)
            self._unstepped = False

        optimizer.step = MethodType(step, optimizer)  # type: ignore[method-assign]
        # Schedulers made before look for their own mark on it, and warn; what they did to it is behind ours.
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        return optimizer

    def _loader(self, loader: DataLoader[Any], chosen: bool) -> Any:
        shuffled = not isinstance(loader.sampler, SequentialSampler)
        if self._training is not None and shuffled and not self._shuffled:
            raise TrainError(
                "accelerator.prepare: a shuffled loader came after the one taken for training; prepare the training "
                "loader first"
            )
        if self._training is not None or not chosen:
            here = self.job.device.type == "cpu" or not self.device_placement
            return loader if here else _OnDevice(loader, self.job._session.device)
        batch, self._shuffled = loader.batch_size, shuffled
        if batch is None:
            raise TrainError("accelerator.prepare: give the training DataLoader a batch_size")
        several = self._accumulation > 1
        self._training = self.job.loader(
            loader,
            batch * self._accumulation if several else None,
            max_per_worker=batch if several else None,
        )
        return self._training

    def register_for_checkpointing(self, *objects: Any) -> None:
        """Saved with the job, and sent to newcomers."""
        for each in objects:
            self.job.register(f"accelerate.{len(self._custom_objects)}", each)
            self._custom_objects.append(each)

    # Training.

    def backward(self, loss: Tensor, **others: Any) -> None:
        """The gradient of this worker's part; the job weighs it by its samples."""
        self._unstepped = True
        loss.backward(**others)  # type: ignore[no-untyped-call]
        self.job.report(loss=loss)

    @contextlib.contextmanager
    def accumulate(self, *_models: Any) -> Iterator[None]:
        """The job knows which part of a step this is."""
        yield

    @contextlib.contextmanager
    def no_sync(self, *_models: Any) -> Iterator[None]:
        """Gradients meet in ``optimizer.step()`` only."""
        yield

    @property
    def sync_gradients(self) -> bool:
        """After ``optimizer.step()`` whether that was a whole step; before it True, so that clipping is asked for."""
        return self._unstepped or self.job.stepped

    def clip_grad_norm_(self, parameters: Any, max_norm: float, norm_type: float = 2) -> None:
        """Clips the mean gradient of all workers, when it is known; so there is no norm to return yet."""
        if norm_type != 2:
            raise TrainError(f"accelerator.clip_grad_norm_(norm_type={norm_type!r}): only 2 is supported")
        self.job.clip_grad_norm_(parameters, max_norm)

    def clip_grad_value_(self, *_args: Any, **_others: Any) -> NoReturn:
        """Refused: only a part of the gradient is there."""
        raise TrainError(
            "accelerator.clip_grad_value_ would clip a part of the gradient; write accelerator.clip_grad_norm_"
        )

    # What workers tell each other.

    def gather(self, tensor: Any) -> Any:
        """Every worker evaluates on all data: what is there is everything."""
        if self.job._session.position.inside:
            raise TrainError(
                "accelerator.gather in the training loop would see this worker's part only; accelerator.backward "
                "reports the mean loss, evaluate after the loop"
            )
        return tensor

    def gather_for_metrics(self, input_data: Any, use_gather_object: bool = False) -> Any:  # noqa: ARG002
        """Give the tensor back, like ``gather``."""
        return self.gather(input_data)

    def reduce(self, tensor: Any, reduction: str = "sum", scale: float = 1.0) -> Any:  # noqa: ARG002
        """As ``gather``: every worker has evaluated on all data, so a sum over workers would count it twice."""
        return self.gather(tensor)

    def set_trigger(self) -> NoReturn:
        """Refused: workers come and go between the trigger and its check."""
        raise TrainError("accelerator.set_trigger: not supported; decide by what job.evaluate(...) returned")

    # Leading.

    @property
    def is_main_process(self) -> bool:
        """Whether this worker leads; nobody is known to before training has begun with several workers."""
        return self.job.is_leader and (self.job._session.entered or not self.job.elastic)

    is_local_main_process = is_main_process

    @property
    def process_index(self) -> int:
        """This worker's number at present."""
        return self.job.rank

    @property
    def num_processes(self) -> int:
        """1: a script that multiplies by it must get the same for any number of workers."""
        return 1

    def on_main_process(self, function: Callable[..., Any] | None = None) -> Any:
        """A function that acts on the leader only."""

        def only_there(*args: Any, **others: Any) -> Any:
            return function(*args, **others) if function is not None and self.is_main_process else None

        return only_there if function is not None else self.on_main_process

    on_local_main_process = on_main_process

    def print(self, *values: Any, **_others: Any) -> None:
        """Print on the leader."""
        self.job.print(*values)

    def log(self, values: dict[str, Any], step: int | None = None, log_kwargs: Any = None) -> None:  # noqa: ARG002
        """Report figures to the job."""
        self.job.report(**{name: value for name, value in values.items() if isinstance(value, int | float)})

    # Saving.

    def save_state(self, *args: Any, **others: Any) -> Any:
        """Written by the leader, for reading elsewhere; the job's own checkpoints are made by themselves."""
        return super().save_state(*args, **others) if self.is_main_process else None

    def save_model(self, *args: Any, **others: Any) -> None:
        """Written by the leader."""
        if self.is_main_process:
            super().save_model(*args, **others)

    def save(self, *args: Any, **others: Any) -> None:
        """Written by the leader."""
        if self.is_main_process:
            super().save(*args, **others)

    def load_state(self, *_args: Any, **_others: Any) -> NoReturn:
        """Refused: the job knows more than such a folder."""
        raise TrainError("accelerator.load_state: the job resumes from its own run (--run)")

    def skip_first_batches(self, *_args: Any, **_others: Any) -> NoReturn:
        """Refused: the job's loader begins where the job stands."""
        raise TrainError(
            "accelerator.skip_first_batches: leave it out, the job goes on at the next sample by itself"
        )

    def end_training(self) -> None:
        """End the job: its last state is saved."""
        self.job.finish()


class _OnDevice:
    """A loader whose batches come to the device, one of them ahead."""

    def __init__(self, loader: DataLoader[Any], device: Device) -> None:
        self._loader = loader
        self._mover = BatchMover(device)

    def __iter__(self) -> Iterator[Any]:
        return self._mover.moved(self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class _Scheduler:
    """A scheduler's state without the job's gate, which no file can hold."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def state_dict(self) -> dict[str, Any]:
        return {name: value for name, value in self._scheduler.state_dict().items() if name != "step"}


def _check(settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if name not in _ACCEPTED and value is not None:
            instead = _INSTEAD.get(name, "leave it out")
            raise TrainError(f"Accelerator({name}=...): not supported by elastane.train.accelerate; {instead}")
    precision = settings.get("mixed_precision") or os.environ.get("ACCELERATE_MIXED_PRECISION", "no")
    if precision not in ("no", "bf16"):
        raise TrainError(f"Accelerator(mixed_precision={precision!r}): not supported; write 'bf16'")
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise TrainError(
            f"Accelerator: WORLD_SIZE says {os.environ['WORLD_SIZE']} processes; start the script with elastane train"
        )
