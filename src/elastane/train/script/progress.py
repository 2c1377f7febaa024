"""Progress is what the script's side reports of a run: the start, how much is done, the fields of a window."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import elastane
from elastane.train.adapt.controller import Adaptation
from elastane.train.reports.events import Started
from elastane.train.script.loader import ElasticLoader
from elastane.train.worker.batch_split import Mode
from elastane.train.worker.membership import Membership
from elastane.train.worker.position import Position
from elastane.train.worker.step_cut import LoopSettings


@dataclass(slots=True)
class Progress:
    """The facts of one run; ``epochs`` is how many there will be, once the script has said so."""

    run: Path
    settings: LoopSettings
    membership: Membership
    position: Position
    loaders: dict[str, ElasticLoader]
    adaptation: Callable[[], Adaptation | None]
    epochs: int | None = None

    def expect(self, epochs: int) -> None:
        """The script is going to make so many epochs."""
        self.epochs = epochs

    @property
    def _first(self) -> ElasticLoader | None:
        return next(iter(self.loaders.values()), None)

    @property
    def batch_size(self) -> int:
        """Samples per step over all workers at present; 0 before there is a loader."""
        adaptation = self.adaptation()
        return adaptation.total if adaptation is not None else 0

    def started(self) -> Started:
        """The event of a run that begins."""
        return Started(
            time.time(),
            str(self.run),
            Path(sys.argv[0]).name,
            self.settings.mode.value,
            self.membership.world,
            self._first.step_size if self._first is not None else 0,
            self.settings.seed,
            {"elastane": elastane.__version__, "torch": torch.__version__},
        )

    def facts(self) -> dict[str, Any]:
        """The fields of ``Stepped`` that a window of steps does not know itself."""
        epoch, m = self.position.epoch, self.membership
        facts: dict[str, Any] = {
            "step": self.position.step,
            "epoch": min(epoch, self.epochs - 1) if self.epochs else epoch,
            "epochs": self.epochs,
            "fraction": self.fraction,
            "workers": m.world,
            "nodes": m.nodes,
            "generation": m.generation,
            "batch": self.batch_size,
        }
        adaptation = self.adaptation()
        if adaptation is None:
            return facts
        hints = adaptation.hints()
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

    @property
    def fraction(self) -> float | None:
        """How much of the whole run is done; None where that cannot be known."""
        first, adaptation = self._first, self.adaptation()
        if not self.epochs or first is None or not first.source.length:
            return None
        if self.settings.mode is Mode.ADAPTIVE and adaptation is not None:
            steps = self.epochs * (first.usable or 0) / first.step_size
            return min(1.0, adaptation.progress / steps)
        inside = min(1.0, first.position / (first.usable or 1))
        return min(1.0, (self.position.epoch + inside) / self.epochs)
