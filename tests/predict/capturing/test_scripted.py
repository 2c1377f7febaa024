"""A script as it is: one step of it, without its loader's work, and the script is not run to its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from typer.testing import CliRunner

from elastane.cli.predict import app
from elastane.errors import ElastaneError
from elastane.predict import TrainingJob, capture
from elastane.predict.capturing.scripted import capture_script
from elastane.predict.operators import Method, Phase

SCRIPT = """
import sys
import torch
from pathlib import Path
from torch.utils.data import DataLoader, TensorDataset

accumulated, folder = int(sys.argv[1]), Path(__file__).parent
data = TensorDataset(torch.randn(400, 24), torch.randint(0, 10, (400,)))
model = torch.nn.Sequential(torch.nn.Linear(24, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for epoch in range(5):
    for place, (x, y) in enumerate(DataLoader(data, batch_size=20)):
        try:
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if (place + 1) % accumulated == 0:
                optimizer.step()
                optimizer.zero_grad()
        except Exception:
            pass
(folder / "finished").touch()
"""


def job() -> TrainingJob:
    """The same step as a job."""
    layers = (torch.nn.Linear(24, 48), torch.nn.ReLU(), torch.nn.Linear(48, 10))
    return TrainingJob(
        torch.nn.Sequential(*layers),
        lambda n: (torch.randn(n, 24), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def test_a_script_gives_the_same_step_as_its_job_and_is_left_where_it_stands(script: Path) -> None:
    found, same = capture_script(script, ["1"]), capture(job(), 20)
    assert (found.batch, found.method) == (20, Method.REAL)
    for phase in Phase:
        # The scalar that autograd begins with counts as forward in one and as backward in the other.
        ours, theirs = (
            sorted(o.name for o in step.operators if o.phase is phase and o.name != "aten::ones_like")
            for step in (found, same)
        )
        assert ours == theirs
        assert found.flops(phase) == pytest.approx(same.flops(phase), abs=2)
    assert found.memory.parameters == same.memory.parameters
    assert found.memory.activations == same.memory.activations
    assert not (script.parent / "finished").exists()


def test_accumulated_gradients_are_one_step_with_a_larger_batch(script: Path) -> None:
    once, twice = capture_script(script, ["1"]), capture_script(script, ["2"])
    assert twice.batch == 40
    assert twice.flops(Phase.BACKWARD) > 1.9 * once.flops(Phase.BACKWARD)
    assert twice.flops(Phase.OPTIMIZER) == once.flops(Phase.OPTIMIZER)


def test_a_script_that_fails_never_trains_or_does_not_exist_says_so(tmp_path: Path) -> None:
    broken, idle = tmp_path / "broken.py", tmp_path / "idle.py"
    broken.write_text("import torch\nraise ValueError('no data here')\n", encoding="utf-8")
    idle.write_text("print('hello')\n", encoding="utf-8")
    with pytest.raises(ElastaneError, match="no data here"):
        capture_script(broken)
    with pytest.raises(ElastaneError, match="fewer than two steps"):
        capture_script(idle)
    with pytest.raises(ElastaneError, match="there is no script"):
        capture_script(tmp_path / "nowhere.py")


def test_the_verbs_take_a_script_in_place_of_a_job(script: Path) -> None:
    words = ("step", "--script", f"{script} 1", "--device", "t4", "--json")
    told = json.loads(CliRunner().invoke(app, words, catch_exceptions=False).stdout)
    assert told["steps"][0]["step_s"]["p50"] > 0
    for wrong, message in ((("step", "a:b", *words[1:]), "not both"), (("step", "--device", "t4"), "--script")):
        with pytest.raises(ElastaneError, match=message):
            CliRunner().invoke(app, wrong, catch_exceptions=False)
