"""Hugging Face's ``Trainer`` as an elastic job: ``ElasticTrainer(model, args, job=et.init(), train_dataset=…)``.

Every worker runs a ``Trainer`` of one process; Accelerate sees no others.  The job gives it data, sums gradients and
steps the optimizer; a newcomer, or a run that is taken up again, begins in the middle of an epoch.

* The batch of a step is ``per_device_train_batch_size * gradient_accumulation_steps``, with any number of workers.
* ``max_grad_norm`` clips the mean gradient of all workers.
* ``ElasticTrainer(…, loss="sum")`` says that the model returns a sum over the samples it is given, not their mean.
* Evaluation runs on one worker, its metrics go to all; after training every worker evaluates by itself.
* Checkpoints of the ``Trainer`` are written by the leader.  To go on after an end, use the job's own (``--run``).

Limits: the loss of a step is the mean over its units, weighted by samples (not by tokens, where they differ);
``logs["loss"]`` is that of the leader's share; ``logs["grad_norm"]`` is what clipping left; in adaptive mode
learning-rate schedules count real steps, which may be fewer; ``load_best_model_at_end`` does not know what a leader
saved that was lost since.  ``fp16`` (loss scaling), DeepSpeed, FSDP and starting with torchrun are not supported;
``bf16`` is.  Made for transformers 5.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, RandomSampler, SequentialSampler

from elastane.train.accelerate_device import place_accelerate
from elastane.train.errors import TrainError
from elastane.train.reduce.gradient_reads import harmless_reads
from elastane.train.script.api import Job
from elastane.train.script.framework_loop import WholeSteps
from elastane.train.script.refusals import checked_loss
from elastane.train.worker.batch_split import Mode

try:
    _transformers: Any = importlib.import_module("transformers")
    _Trainer: Any = _transformers.Trainer
    _Callback: Any = _transformers.TrainerCallback
except ImportError as error:
    raise TrainError(
        f"elastane.train.hf needs transformers and accelerate (pip install transformers accelerate): {error}"
    ) from error
if not hasattr(_Trainer, "_run_epoch"):
    raise TrainError(f"elastane.train.hf needs transformers 5, not {_transformers.__version__}")

_KEPT = (
    "log_history",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
    "total_flos",
    "num_input_tokens_seen",
)
"""What of ``TrainerState`` a newcomer has to know."""


class ElasticTrainer(_Trainer):  # type: ignore[misc]
    """A ``Trainer`` that is one of several workers; ``max_batch_size`` is for adaptive mode."""

    control: Any

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *,
        job: Job,
        max_batch_size: int | None = None,
        loss: str | None = None,
        **others: Any,
    ) -> None:
        self.job = job
        self._loss = checked_loss("ElasticTrainer", loss)
        self.steps: WholeSteps | None = None
        self._max_batch_size = max_batch_size
        self._end_unit: Callable[[], Any] = _nothing
        args = copy.copy(args) if args is not None else _transformers.TrainingArguments()
        _check(args)
        self._max_norm, args.max_grad_norm = args.max_grad_norm, 0.0
        self._accumulation, args.gradient_accumulation_steps = args.gradient_accumulation_steps, 1
        args.disable_tqdm = True  # a bar cannot follow the lead from one worker to another
        _place(args, job.device)
        super().__init__(model=model, args=args, **others)
        # First, so that the callbacks that decide what to do after a step see the job's position.
        self.callback_handler.callbacks.insert(0, _follower(self))

    @property
    def counts_epochs(self) -> bool:
        """Whether the number of steps is not known before (adaptive mode, unless ``max_steps`` says so)."""
        return self.job.mode is Mode.ADAPTIVE and self.args.max_steps <= 0

    def train(self, resume_from_checkpoint: Any = None, **others: Any) -> Any:
        """As usual; the job goes on where its run stands."""
        if resume_from_checkpoint:
            raise TrainError("train(resume_from_checkpoint): the job resumes from its own run (--run)")
        return super().train(**others)

    def get_train_dataloader(self) -> WholeSteps:
        """The job's loader over the training data."""
        dataset, collate = self.train_dataset, self.data_collator
        if dataset is None:
            raise TrainError("ElasticTrainer: training needs a train_dataset")
        if type(dataset).__module__.startswith("datasets."):
            dataset = self._remove_unused_columns(dataset, description="Training")
        else:
            collate = self._get_collator_with_removed_columns(collate, description="Training")
        stream = isinstance(dataset, IterableDataset)
        sampler = None if stream else self._get_train_sampler(dataset)
        plain = isinstance(sampler, RandomSampler | SequentialSampler)
        loader = self.job.loader(
            dataset,
            self._train_batch_size * self._accumulation,
            max_batch_size=self._max_batch_size,
            max_per_worker=self._train_batch_size if self._accumulation > 1 else None,
            shuffle=isinstance(sampler, RandomSampler),
            sampler=None if plain else sampler,
            collate_fn=collate,
            num_workers=self.args.dataloader_num_workers,
        )
        self.steps = WholeSteps(self.job, loader, dataset)
        return self.steps

    def create_optimizer(self, model: Any = None) -> Any:
        """The optimizer, under the job's control; what the training loop calls its step is made before."""
        optimizer = super().create_optimizer(model)
        self.job.model(self.model, loss=self._loss)
        self.job.optimizer(optimizer, max_grad_norm=self._max_norm or None)
        self.job.register("trainer", _Memory(self))
        self._end_unit = optimizer.step
        optimizer.step = MethodType(_nothing, optimizer)
        return optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The scheduler, saved with the job."""
        scheduler = super().create_scheduler(num_training_steps, optimizer)
        # Not job.scheduler(): its gate is of no use where steps are whole, and cannot be in a Trainer's checkpoint.
        return self.job.register("scheduler", scheduler)

    def _run_epoch(self, *, epoch: int, num_update_steps_per_epoch: int, **others: Any) -> None:
        assert self.steps is not None
        if self.steps.begin_epoch(epoch, self.state.num_train_epochs):
            # More than there can be, so that the loop meets the end of the pass instead of counting to it.
            rounds = 2 * num_update_steps_per_epoch + 1
            super()._run_epoch(epoch=epoch, num_update_steps_per_epoch=rounds, **others)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """All units that this worker owes to one step, and the step itself."""
        assert self.steps is not None
        losses: list[Tensor] = []

        def compute(unit: Any, items: Any) -> None:
            losses.append(super(ElasticTrainer, self).training_step(model, unit, items))
            self.job.report(loss=losses[-1])

        compute(inputs, num_items_in_batch)
        self.steps.finish(
            self._end_unit, lambda unit: compute(unit, self._get_num_items_in_batch([unit], self.args.device))
        )
        return torch.stack(losses).mean()

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        """Only looks: the usual way scales by one, and newcomers may still be sent these gradients."""
        if grad_norm is not None:
            return grad_norm
        with harmless_reads():
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return torch.nn.utils.get_total_norm(gradients)

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: Any = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """On one worker while training; the metrics, and what callbacks make of them, are everybody's."""
        measured = False

        def measure() -> dict[str, float]:
            nonlocal measured
            measured = True
            found: dict[str, float] = super(ElasticTrainer, self).evaluate(
                eval_dataset, ignore_keys, metric_key_prefix
            )
            return found

        several = isinstance(eval_dataset if eval_dataset is not None else self.eval_dataset, dict)
        if several or not self.is_in_train:  # several: each of them by this method
            return measure()
        key = f"trainer.{self.job.step}.{metric_key_prefix}"
        metrics: dict[str, float] = self.job.from_leader(key, measure)
        if not measured:
            self.log(dict(metrics))
            self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        self.job.report(**{key: value for key, value in metrics.items() if isinstance(value, int | float)})
        return metrics

    def is_world_process_zero(self) -> bool:
        """Whether this worker leads."""
        return self.job.is_leader

    def is_local_process_zero(self) -> bool:
        """Whether this worker leads."""
        return self.job.is_leader

    def save_model(self, *args: Any, **others: Any) -> None:
        """Written by the leader."""
        if self.job.is_leader:
            super().save_model(*args, **others)

    def _save_checkpoint(self, *args: Any, **others: Any) -> None:
        if self.job.is_leader:
            super()._save_checkpoint(*args, **others)


def _nothing(*_args: Any, **_others: Any) -> None:
    """The step was made when the units were complete."""


def _place(args: Any, device: torch.device) -> None:
    """Train where the job does, whatever the arguments have found."""
    args._n_gpu = int(args.n_gpu > 0 and device.type != "cpu")
    args.__dict__["_setup_devices"] = device  # a cached property: what it found before
    place_accelerate(device)


def _check(args: Any) -> None:
    problems = {
        "fp16": args.fp16,
        "deepspeed": args.deepspeed,
        "fsdp": args.fsdp,
        "auto_find_batch_size": args.auto_find_batch_size,
        "eval_on_start": args.eval_on_start,
        "dataloader_drop_last": args.dataloader_drop_last,
    }
    for name, value in problems.items():
        if value:
            raise TrainError(f"TrainingArguments({name}={value!r}): not supported by ElasticTrainer")
    if args.world_size > 1:
        raise TrainError(
            f"ElasticTrainer: Accelerate has found {args.world_size} processes; start the script with elastane train"
        )


class _Memory:
    """The part of a trainer's state that newcomers and restarts take over."""

    def __init__(self, trainer: ElasticTrainer) -> None:
        self._trainer = trainer

    def _callbacks(self) -> list[Any]:
        kind = importlib.import_module("transformers.trainer_callback").ExportableState
        return [each for each in self._trainer.callback_handler.callbacks if isinstance(each, kind)]

    def state_dict(self) -> dict[str, Any]:
        state = self._trainer.state
        kept = {name: getattr(state, name) for name in _KEPT}
        return {"state": kept, "callbacks": [each.state()["attributes"] for each in self._callbacks()]}

    def load_state_dict(self, kept: Mapping[str, Any]) -> None:
        for name, value in kept["state"].items():
            setattr(self._trainer.state, name, value)
        for callback, attributes in zip(self._callbacks(), kept["callbacks"], strict=True):
            for name, value in attributes.items():
                setattr(callback, name, value)


def _follower(trainer: ElasticTrainer) -> Any:
    """A callback that keeps the trainer's idea of where it is with the job's."""

    class Follower(_Callback):  # type: ignore[misc]
        def on_train_begin(self, _args: Any, state: Any, control: Any, **_others: Any) -> Any:
            assert trainer.steps is not None
            trainer.steps.begin_epoch(0, state.num_train_epochs)
            state.global_step = trainer._globalstep_last_logged = trainer._initial_global_step = (
                trainer.job.step
            )
            if trainer.counts_epochs:
                state.max_steps *= 2  # the job says when an epoch is over, which may take a few steps more
            self._lead(state)
            return control

        def on_step_begin(self, _args: Any, state: Any, control: Any, **_others: Any) -> Any:
            self._lead(state)
            return control

        def on_step_end(self, _args: Any, state: Any, control: Any, **_others: Any) -> Any:
            assert trainer.steps is not None
            state.epoch = trainer.job.epoch + trainer.steps.fraction
            return control

        def on_epoch_end(self, _args: Any, state: Any, control: Any, **_others: Any) -> Any:
            assert trainer.steps is not None
            if trainer.steps.over:
                state.epoch = trainer.job.epoch + 1.0
                if trainer.counts_epochs and state.epoch == state.num_train_epochs:
                    state.max_steps = state.global_step
                # Who comes just before the end of an epoch sees no sample of it, which is no reason to stop.
                control.should_training_stop = control.should_training_stop and not trainer.job.step
            return control

        def on_train_end(self, _args: Any, _state: Any, control: Any, **_others: Any) -> Any:
            assert trainer.steps is not None
            trainer.steps.close()
            return control

        def _lead(self, state: Any) -> None:
            state.is_world_process_zero = state.is_local_process_zero = trainer.job.is_leader

    return Follower()
