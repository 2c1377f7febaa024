"""A script that fails before it has said a word to us."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from elastane.train.coordinator.settings import Settings
from elastane.train.coordinator.supervisor import JobOptions, Supervisor

HF = """
from transformers import Trainer, TrainingArguments
import elastane.train as et
import nosuchmodule
"""
LIGHTNING = """
import lightning.pytorch as pl
import elastane.train as et
class Net(pl.LightningModule):
    import nosuchmodule
"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("import nosuchmodule\nimport elastane.train as et\n", id="plain"),
        pytest.param(HF, id="Hugging Face", marks=pytest.mark.slow),
        pytest.param(LIGHTNING, id="Lightning", marks=pytest.mark.slow),
    ],
)
def test_an_import_that_is_missing_is_the_cause_after_two_starts(tmp_path: Path, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    options = JobOptions(str(script), run=tmp_path / "run", settings=Settings(workers=1), directory=tmp_path)
    ended = asyncio.run(asyncio.wait_for(Supervisor(options, lambda _: None, lambda _: None).run(), 200))
    assert ended.outcome == "failed"
    assert ended.cause == "ModuleNotFoundError: No module named 'nosuchmodule'"
    assert sorted(log.name for log in (tmp_path / "run" / "logs").glob("w*.log")) == ["w1.log", "w2.log"]
