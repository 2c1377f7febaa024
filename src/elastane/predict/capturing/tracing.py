"""Captures a training step: forward, backward and optimizer as a list of operators.

A step is first run on tensors without data (``FakeTensorMode``): nothing is computed or allocated, whatever the
size.  A model whose control flow looks at its data cannot be run so; then a copy of it is really run at two small
batches, and every size is extrapolated to the batch that was asked for.  The user's weights, gradients, buffers and
random generators are not changed in either case.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from elastane.errors import ElastaneError
from elastane.predict.capturing.isolation import (
    hollow_copy,
    hollowed,
    no_collecting,
    real_copy,
    untouched_randomness,
)
from elastane.predict.capturing.memory_footprint import MemoryFootprint
from elastane.predict.capturing.recorder import Recorder
from elastane.predict.capturing.scaling import carried_on
from elastane.predict.job import JobFactory, TrainingJob
from elastane.predict.operators import Method, Phase, StepCapture

SMALL_BATCHES = (2, 4)
"""Batches of the real steps from which others are extrapolated."""


def capture(job: TrainingJob | JobFactory, batch: int) -> StepCapture:
    """Captures the operators of one step at a batch size.

    A function that makes the job is better than a job: its model is then built without data as well, so that a
    model far larger than this machine can be captured.
    """
    if batch < 1:
        raise ElastaneError(f"the batch must be 1 or more, not {batch}")
    with untouched_randomness():
        try:
            with _quiet(), no_collecting():
                return _fake(job, batch)
        except ElastaneError:
            raise
        except (
            Exception
        ) as error:  # whatever a user's model raises: the real run tells whether it is the model's
            why = f"{type(error).__name__}: {error}".splitlines()[0][:160]
        return _real(job if isinstance(job, TrainingJob) else job(), batch, why)


def _fake(job: TrainingJob | JobFactory, batch: int) -> StepCapture:
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    if isinstance(job, TrainingJob):
        model = hollow_copy(job.model, mode)
    else:
        with mode:
            job = job()
        model = hollow_copy(job.model, mode)
    data = hollowed(_batch(job, batch, mode), mode)
    with mode:
        return _traced(job, model, data, batch)


def _batch(job: TrainingJob, size: int, mode: FakeTensorMode) -> Any:
    """Makes the batch without data if its function allows that, else with data, which is dropped later."""
    try:
        with mode:
            return job.batch_fn(size)
    except ElastaneError:
        raise
    except Exception:
        return job.batch_fn(size)


def _real(job: TrainingJob, batch: int, why: str) -> StepCapture:
    def small(size: int) -> StepCapture:
        return _traced(job, real_copy(job.model), job.batch_fn(size), size)

    try:
        captured = carried_on(small(SMALL_BATCHES[0]), small(SMALL_BATCHES[1]), batch)
    except ElastaneError:
        raise
    except Exception as error:
        raise ElastaneError(f"the model could not be run: {type(error).__name__}: {error}") from error
    note = f"the step could not be captured without data ({why}), so small real steps were run"
    return StepCapture(
        captured.operators,
        captured.batch,
        captured.calls,
        captured.memory,
        Method.REAL,
        (note, *captured.notes),
    )


def _traced(job: TrainingJob, model: torch.nn.Module, data: Any, batch: int) -> StepCapture:
    """Runs one step and records what is dispatched; tensors may have data or not."""
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = job.optimizer_fn(trained) if job.optimizer_fn is not None and trained else None
    held = MemoryFootprint(model.parameters(), model.buffers())
    recorder = Recorder()
    with recorder.modules, recorder, held.watching():
        loss = job.loss_fn(model, data)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise ElastaneError("loss_fn must return a tensor with one element")
        recorder.phase = Phase.BACKWARD
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
    if optimizer is not None:
        optimizer.step()  # its first step makes its state, which later ones do not
        with recorder:
            recorder.phase = Phase.OPTIMIZER
            optimizer.step()
            optimizer.zero_grad()
    operators = tuple(recorder.operators)
    if not operators:
        raise ElastaneError("loss_fn runs no operator of PyTorch, so there is nothing to predict")
    return StepCapture(operators, batch, recorder.calls, held.memory(optimizer, recorder.largest_output))


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences PyTorch's warnings about tensors without data: if the attempt fails, our own note says so."""
    manager = logging.getLogger("torch").manager
    before = manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
