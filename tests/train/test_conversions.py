"""Converted scripts of the kinds people bring end as they do alone, through growth, a kill and shrinking."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from elastane.train.coordinator.scripted_events import Wish
from elastane.train.coordinator.settings import Settings
from elastane.train.worker.checkpoint import FolderCheckpointStore
from elastane.train.worker.state_codec import unpack
from train.running import Outcome, alone, processes_of, train

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
WISHES = (
    Wish(5, "resize", 3, steps=True),
    Wish(30, "kill", steps=True, settled=True),
    Wish(45, "resize", 1, steps=True, settled=True),
)
PATIENT = Settings(workers=1, lease_s=60.0, hang_floor_s=60.0, join_patience_s=60.0)
"""However busy the machine is, newcomers come together, and nobody is lost but by the kill."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """A script, how long it trains, and how far apart its results are for no reason.

    ``seeds`` are the results of ``python examples/SCRIPT.py --epochs EPOCHS --seed 0`` to ``4``, one thread, measured
    once.  Two runs may differ by three times the spread of these: twice that of five draws is 3.3 standard deviations
    of a difference, and five draws do not tell much about the spread itself.
    """

    script: str
    epochs: int
    steps: int
    result: str
    seeds: tuple[float, ...]
    preload: tuple[str, ...] = ()
    victim: int = 0
    """Seed by which the worker to be killed is drawn."""

    @property
    def noise(self) -> float:
        return 3 * (max(self.seeds) - min(self.seeds))

    @property
    def path(self) -> Path:
        return EXAMPLES / f"{self.script}.py"

    def found(self, printed: list[str]) -> float:
        """The result after the last epoch, whoever printed it."""
        lines = (re.match(rf"(?:epoch (\d+): )?{self.result} (\d+\.\d+)", line) for line in printed)
        last = max((match for match in lines if match), key=lambda match: int(match[1] or 0))
        assert last[1] in (None, str(self.epochs - 1))
        return float(last[2])

    def elastic(self, run: Path, mode: str) -> Outcome:
        return train(
            self.path,
            run,
            f"--epochs={self.epochs}",
            wishes=WISHES,
            settings=PATIENT,
            mode=mode,
            seed=self.victim,
            preload=("pacing", *self.preload),
        )

    def alone(self, run: Path, mode: str) -> list[str]:
        return alone(self.path, run, f"--epochs={self.epochs}", mode=mode)


HF = ("transformers.models.gpt2.modeling_gpt2", "transformers.trainer")
ELASTIC = [
    Conversion("digits_cnn", 8, 192, "accuracy", (0.960, 0.939, 0.960, 0.960, 0.960)),
    Conversion("vae", 8, 192, "loss", (24.135, 24.052, 24.492, 24.115, 24.080), victim=1),
    Conversion("micro_steps", 12, 192, "loss", (1.2095, 1.2027, 1.2027, 1.2029, 1.2060), victim=2),
    Conversion("hf_trainer", 6, 192, "loss", (1.391, 1.426, 1.352, 1.101, 1.400), HF),
    Conversion(
        "lightning_digits", 8, 192, "accuracy", (0.906, 0.909, 0.916, 0.902, 0.906), ("lightning.pytorch",), 1
    ),
    Conversion(
        "accelerate_digits", 8, 192, "accuracy", (0.892, 0.899, 0.889, 0.886, 0.896), ("accelerate",), 2
    ),
]
GAN = Conversion("gan_digits", 7, 196, "mean", ())
"""Two optimizers in turn: bits are compared, so nothing has to be known of its noise."""
HOROVOD = Conversion("horovod_digits", 8, 0, "accuracy", (0.875, 0.919, 0.896, 0.919, 0.892))
"""How many steps it makes depends on how many workers it has, since its batch is per worker."""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE))  # for pacing.py


def check_what_happened(done: Outcome, joins: str) -> None:
    """1 worker became 3, without a restart; 3 trained; one was lost and replaced; 1 was left."""
    assert done.ended.outcome == "finished", done.ended
    assert [lost.cause for lost in done.lost] == ["killed by signal 9"]
    changes = [(change.kind, change.before, change.after) for change in done.resized]
    assert changes == [("grow", 1, 3), ("recover", 3, 2), ("grow", 2, 3), ("shrink", 3, 1)]
    first, killed, second, last = done.resized
    assert {first.shadow, second.shadow} == {joins == "following"}
    assert killed.step - first.step + last.step - second.step > 0
    assert last.step < done.ended.step
    assert processes_of(done.run) == []


def state_of(run: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Model and optimizer as the run left them, and where its loader stands."""
    loaded = FolderCheckpointStore(run / "checkpoints").load()
    assert loaded is not None
    tensors = {name: tensor for name, tensor in loaded.packed.tensors.items() if not name.startswith("parts.")}
    return tensors, unpack(loaded.packed)["parts"]["loader.data"]


def passes(loader: dict[str, Any], samples: int) -> int:
    """Whole passes over the data; nothing of another one."""
    assert loader["position"] in (0, samples)
    return int(loader["passes"]) + (loader["position"] == samples)


def named(conversion: Conversion) -> str:
    return conversion.script


@pytest.mark.slow
@pytest.mark.parametrize("conversion", ELASTIC, ids=named)
def test_a_converted_script_ends_as_it_does_alone(conversion: Conversion, tmp_path: Path) -> None:
    printed = conversion.alone(tmp_path / "alone", "fixed")
    done = conversion.elastic(tmp_path / "run", "fixed")
    check_what_happened(done, "following")
    assert done.ended.step == conversion.steps
    samples = 1024 if conversion.script in ("micro_steps", "hf_trainer") else 1500
    assert passes(state_of(done.run)[1], samples) == conversion.epochs
    assert conversion.found(done.printed) == pytest.approx(conversion.found(printed), abs=conversion.noise)


@pytest.mark.slow
@pytest.mark.parametrize("conversion", [*ELASTIC, GAN], ids=named)
def test_in_consistent_mode_it_ends_with_the_same_bits(conversion: Conversion, tmp_path: Path) -> None:
    printed = conversion.alone(tmp_path / "alone", "consistent")
    done = conversion.elastic(tmp_path / "run", "consistent")
    check_what_happened(done, "copying" if conversion is GAN else "following")
    assert done.ended.step == conversion.steps
    mine, theirs = state_of(done.run)[0], state_of(tmp_path / "alone")[0]
    assert mine.keys() == theirs.keys()
    assert [name for name in mine if not torch.equal(mine[name], theirs[name])] == []
    assert conversion.found(done.printed) == conversion.found(printed)


@pytest.mark.slow
def test_a_horovod_script_ends_as_it_does_alone(tmp_path: Path) -> None:
    printed = HOROVOD.alone(tmp_path / "alone", "fixed")
    done = HOROVOD.elastic(tmp_path / "run", "fixed")
    check_what_happened(done, "copying")
    seen = re.findall(r"epoch (\d+): .* after (\d+) samples", "\n".join(done.printed))
    assert {int(epoch) for epoch, _ in seen} == set(range(HOROVOD.epochs))
    assert all(1498 <= int(count) <= 1500 for _, count in seen)  # three workers leave out two at most
    assert HOROVOD.found(done.printed) == pytest.approx(HOROVOD.found(printed), abs=HOROVOD.noise)


@pytest.mark.slow
def test_a_worker_killed_in_the_last_evaluation_does_not_take_the_result_along(tmp_path: Path) -> None:
    few = ("--epochs=1", "--sequences=64")
    done = train(
        EXAMPLES / "hf_trainer.py", tmp_path / "run", *few, workers=2, preload=("killed_in_the_end", *HF)
    )
    assert done.ended.outcome == "finished", done.ended
    assert (done.run / "killed").exists()
    assert len([line for line in done.printed if re.match(r"loss \d+\.\d+ after 2 steps", line)]) == 1
