"""A missing or foreign PyTorch is one line that says what to install, not a failure somewhere inside."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from elastane.train.torch_range import BELOW, OLDEST, check_torch, why_not

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("found", ["2.13.0", "2.13.0+cpu", "2.13.1", "2.14.0a0+gitabc", "2.99"])
def test_versions_in_range_will_do(found: str) -> None:
    assert why_not(found) == ""


@pytest.mark.parametrize(
    ("found", "said"),
    [(None, "there is none"), ("2.12.1", "2.12.1"), ("3.0.0+cu130", "3.0.0"), ("", "does not say")],
)
def test_others_are_refused_in_one_line_with_what_to_do(found: str | None, said: str) -> None:
    reason = why_not(found)
    assert said in reason
    assert reason.startswith("elastane.train needs PyTorch 2.13 or newer, below 3.0")
    assert reason.endswith("pip install 'elastane[torch]'")
    assert "\n" not in reason


def test_the_one_that_we_are_tested_with_will_do() -> None:
    check_torch()


def test_the_range_is_that_of_the_extra_and_ours_is_within() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    of = {
        name: next(r for r in map(Requirement, extras[name]) if r.name == "torch") for name in ("torch", "dev")
    }
    oldest, below = (Version(".".join(map(str, each))) for each in (OLDEST, BELOW))
    assert {(each.operator, Version(each.version)) for each in of["torch"].specifier} == {
        (">=", oldest),
        ("<", below),
    }
    (exact,) = of["dev"].specifier
    assert (exact.operator, exact.version in of["torch"].specifier) == ("==", True)


_WITHOUT = """
import sys
from importlib import metadata
real = metadata.version
def version(name):
    if name == "torch":
        raise metadata.PackageNotFoundError(name)
    return real(name)
metadata.version = version
"""


_NOT_EVEN_IMPORTED = """
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Nothing())
"""


def without_torch(code: str) -> subprocess.CompletedProcess[str]:
    """A process in which PyTorch cannot be found, nor imported."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT + _NOT_EVEN_IMPORTED + code],
        capture_output=True,
        text=True,
        check=False,
    )


def test_importing_costs_nothing_and_the_first_name_says_what_is_missing() -> None:
    done = without_torch(
        "import elastane.train as et\n"
        "try:\n    et.init\nexcept et.TrainError as error:\n    print(error)\n"
        "assert 'torch' not in sys.modules"
    )
    assert done.stderr == ""
    assert "and there is none; install it with" in done.stdout


@pytest.mark.parametrize("options", [(), ("--workers=2",), ("--kind=adaptive",)])
def test_elastane_train_says_it_before_it_starts_anything(tmp_path: Path, options: tuple[str, ...]) -> None:
    """D29, the command line: one line with what to install, nothing begun, nothing left."""
    script = tmp_path / "script.py"
    script.write_text("import elastane.train as et\njob = et.init()\n")
    done = without_torch(
        f"import os; os.chdir({str(tmp_path)!r})\n"
        f"sys.argv = ['elastane', 'train', *{options!r}, {str(script)!r}]\n"
        "from elastane.cli.main import main\nmain()"
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: elastane.train needs PyTorch")
    assert done.stderr.endswith("pip install 'elastane[torch]'\n")
    assert list(tmp_path.iterdir()) == [script]
