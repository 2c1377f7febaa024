"""Nothing in the sources runs text as a program: no shells, no eval, no pickles but between our own processes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "elastane"
CALLS = {"eval", "exec", "os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
ALLOWED = {
    "train/data/ipc.py": {"import of pickle"},  # between a process and its own fork
    "jobs/yamlio.py": {"yaml.load"},  # with a safe loader
}


def forbidden(tree: ast.AST) -> set[str]:
    """What a module does that it must not."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {f"import of {each.name}" for each in node.names if each.name.split(".")[0] in MODULES}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.add(f"import of {node.module}")
        elif isinstance(node, ast.Call):
            found |= _of_call(node)
    return found


def _of_call(node: ast.Call) -> set[str]:
    name = ast.unparse(node.func)
    given = {word.arg: word.value for word in node.keywords}
    shell = given.get("shell")
    found = {"shell=True"} if shell is not None and not _is(shell, False) else set()
    if name in CALLS or name in ("yaml.load", "yaml.unsafe_load", "yaml.full_load"):
        found.add(name)
    if name == "torch.load" and not _is(given.get("weights_only"), True):
        found.add("torch.load without weights_only=True")
    return found


def _is(node: ast.expr | None, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import pickle", "import of pickle"),
        ("from marshal import loads", "import of marshal"),
        ("eval(text)", "eval"),
        ("os.system(text)", "os.system"),
        ("subprocess.run(text, shell=True)", "shell=True"),
        ("subprocess.run(text, shell=wanted)", "shell=True"),
        ("yaml.load(text)", "yaml.load"),
        ("torch.load(path)", "torch.load without weights_only=True"),
        ("torch.load(path, weights_only=False)", "torch.load without weights_only=True"),
    ],
)
def test_the_gate_sees_what_it_is_for(text: str, problem: str) -> None:
    assert forbidden(ast.parse(text)) == {problem}


def test_the_gate_lets_the_rest_pass() -> None:
    harmless = "model.eval()\nrun(['ls'], shell=False)\ntorch.load(p, weights_only=True)\nyaml.safe_load(t)"
    assert forbidden(ast.parse(harmless)) == set()


def test_no_module_runs_text_or_reads_pickles() -> None:
    seen = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if found := forbidden(ast.parse(path.read_text(encoding="utf-8"))):
            seen[name] = found
    assert seen == ALLOWED
