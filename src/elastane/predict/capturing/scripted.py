"""Captures one step of an unmodified training script, run in its own process until its second optimizer step has ended.

The first step is skipped (it makes the optimizer's state); what is dispatched between its end and the end of the
second is one training step, at the script's own batch, really computed on this machine.  Files that the script writes
before that are written.  It needs its own process because the script is abandoned in the middle.
"""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import DataLoader

from elastane.codec import decoded, encoded
from elastane.errors import ElastaneError
from elastane.predict.capturing.memory_footprint import MemoryFootprint
from elastane.predict.capturing.recorder import Recorder
from elastane.predict.operators import Method, Phase, StepCapture

_END = object()


class Enough(BaseException):
    """Raised to end the script; not an ``Exception``, so that a script that catches errors ends as well."""


class ScriptRecorder(Recorder):  # type: ignore[no-untyped-call]
    """A recorder that sets the phase by itself: backward whenever autograd is running."""

    updating = False
    loading = False

    def note(self, func: Any, stem: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Records an operator with the present phase; making a batch is not part of a step."""
        if self.loading:
            return
        if self.updating:
            self.phase = Phase.OPTIMIZER
        else:
            self.phase = Phase.BACKWARD if torch._C._current_graph_task_id() != -1 else Phase.FORWARD
        super().note(func, stem, args, kwargs, result)


class Watch:
    """Captures a step of one script, by hooks on every optimizer and loader of this process."""

    def __init__(self) -> None:
        self.captured: StepCapture | None = None
        self._recorder: ScriptRecorder | None = None
        self._held: MemoryFootprint | None = None
        self._samples = 0
        self._active = ExitStack()

    def run(self, path: Path, arguments: Sequence[str]) -> None:
        """Runs the script until the step is captured, or to its end."""
        register_optimizer_step_pre_hook(self._begins)
        register_optimizer_step_post_hook(self._ended)
        self._count_samples()
        sys.argv = [str(path), *arguments]
        sys.path.insert(0, str(path.parent))
        try:
            runpy.run_path(str(path), run_name="__main__")
        except Enough:
            pass
        finally:
            self._active.close()

    def _begins(self, *_ignored: Any) -> None:
        if self._recorder is not None:
            self._recorder.updating = True

    def _ended(self, optimizer: torch.optim.Optimizer, *_ignored: Any) -> None:
        if self._recorder is None:
            self._record(optimizer)
            return
        self._active.close()
        assert self._held is not None
        memory = self._held.memory(optimizer, self._recorder.largest_output)
        notes = ["one step of the script was really run here, at its own batch"]
        if not self._samples:
            notes.append("it uses no DataLoader, so its batch is not known and counted as 1")
        self.captured = StepCapture(
            tuple(self._recorder.operators),
            max(self._samples, 1),
            self._recorder.calls,
            memory,
            Method.REAL,
            tuple(notes),
        )
        raise Enough

    def _record(self, optimizer: torch.optim.Optimizer) -> None:
        parameters = [each for group in optimizer.param_groups for each in group["params"]]
        self._recorder, self._held, self._samples = ScriptRecorder(), MemoryFootprint(parameters), 0
        self._active.enter_context(self._recorder.modules)
        self._active.enter_context(self._held.watching())
        self._active.enter_context(self._recorder)

    def _count_samples(self) -> None:
        """Counts the samples that loaders yield between the two steps: the batch, accumulated passes included."""
        original = DataLoader.__iter__

        def counted(loader: DataLoader[Any]) -> Iterator[Any]:
            batches = iter(original(loader))
            while (batch := self._next(batches)) is not _END:
                self._samples += loader.batch_size or 1
                yield batch

        DataLoader.__iter__ = counted  # type: ignore[assignment, method-assign]

    def _next(self, batches: Iterator[Any]) -> Any:
        if self._recorder is not None:
            self._recorder.loading = True
        try:
            return next(batches, _END)
        finally:
            if self._recorder is not None:
                self._recorder.loading = False


def capture_script(path: Path, arguments: Sequence[str] = ()) -> StepCapture:
    """Captures the operators of one step of a training script, run in a process of its own."""
    if not path.is_file():
        raise ElastaneError(f"there is no script {path}")
    with tempfile.TemporaryDirectory(prefix="elastane-script-") as folder:
        target = Path(folder) / "step.json"
        command = [sys.executable, "-m", __name__, str(target), str(path), *arguments]
        done = subprocess.run(  # noqa: S603
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
        )
        if target.exists():
            return decoded(StepCapture, json.loads(target.read_text(encoding="utf-8")))
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ElastaneError(f"{path} ended before its second optimizer step: {last}")
    raise ElastaneError(f"{path} made fewer than two steps of a torch.optim optimizer in its own process")


def main() -> None:
    """Runs in the script's process; its arguments are the file to write, the script, and the script's arguments."""
    target, script, *arguments = sys.argv[1:]
    watch = Watch()
    watch.run(Path(script), arguments)
    if watch.captured is not None:
        Path(target).write_text(json.dumps(encoded(watch.captured)), encoding="utf-8")


if __name__ == "__main__":
    main()
