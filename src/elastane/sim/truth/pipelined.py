"""Replays a hybrid-parallel application: replicas that are pipelines of a fixed width, as Sia measured ``gpt_pmp``.

=========  =====================================================================
symbol     meaning
=========  =====================================================================
u          pipeline stages, so GPUs of a replica: the smallest placement measured
B          micro-batches that a replica works off in a pass
t_fwd      seconds of one stage's forward pass of one micro-batch (``step_time``)
T_sync     seconds to synchronise replicas (``sync_time``)
pass       3 · (u − 1 + B) · t_fwd + T_sync    (the backward pass takes 2 · t_fwd)
=========  =====================================================================

Only whole replicas train: of k GPUs, u · ⌊k/u⌋ work and the others idle.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from elastane.sim.truth.measured import MeasuredApp

MICRO_BATCHES = 48
"""Micro-batches, of one sample each, for which Sia's pipelines were set up; more have to be accumulated."""


def pipeline_width(app: MeasuredApp) -> int:
    """Returns the GPUs of the smallest placement that was measured."""
    return min(sum(shape) for shape in app.shapes)


class PipelinedApp(MeasuredApp):
    """The measurements of an application whose replicas are pipelines."""

    def __init__(self, directory: Path, gpu_type: str = "") -> None:
        super().__init__(directory, None, gpu_type)
        self.width = pipeline_width(self)
        self.per_gpu_min, self.per_gpu_max = 1, max(MICRO_BATCHES // self.width, 1)
        known = {sum(shape): self.measured(shape) for shape in self.shapes}
        self._gpus = np.array(sorted(known), dtype=np.float64)
        self._forward_s, self._sync_s = np.array([known[int(gpus)] for gpus in self._gpus]).T

    def times_s(self, shape: tuple[int, ...], per_gpu: int) -> tuple[float, float]:
        """Returns seconds per synchronising pass and of its synchronisation; infinite for less than a replica."""
        replicas = sum(shape) // self.width
        if not replicas:
            return np.inf, 0.0
        # The samples of GPUs that idle are worked off by the others.
        micro_batches = per_gpu * sum(shape) / replicas
        used = float(replicas * self.width)
        forward_s, sync_s = (float(np.interp(used, self._gpus, ys)) for ys in (self._forward_s, self._sync_s))
        sync_s = sync_s if replicas > 1 else 0.0
        return 3.0 * (self.width - 1 + micro_batches) * forward_s + sync_s, sync_s
