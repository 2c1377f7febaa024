"""What patterns leave out is what git leaves out."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elastane.engines.nodes.ignore_patterns import is_left_out, read_patterns

CASES = [
    ("*.pyc", "a/b.pyc", True),
    ("*.pyc", "b.pyc/deep", None),
    ("/data", "data", True),
    ("/data", "a/data", None),
    ("a/data", "x/a/data", None),
    ("data", "a/data", True),
    ("data/", "data", None),
    ("a/**", "a/b/c", True),
    ("a/**", "a", None),
    ("**/c", "a/b/c", True),
    ("a/**/c", "a/c", True),
    ("a/**/c", "a/b/x/c", True),
    ("a*c", "a/c", None),
    ("a?c", "abc", True),
    ("[a-c]x", "bx", True),
    ("[!a-c]x", "bx", None),
    ("[!a-c]x", "dx", True),
    (r"\#x", "#x", True),
    (r"\!x", "!x", True),
    ("#x", "#x", None),
    ("*\n!keep", "keep", False),
    ("!keep\n*", "keep", True),
    ("x ", "x", True),
    ("x\\ ", "x ", True),
    ("x\r\n", "x", True),
    ("[", "[", None),
    ("", "x", None),
    ("/", "x", None),
    ("!", "x", None),
]


@pytest.mark.parametrize(("text", "path", "expected"), CASES)
def test_the_last_pattern_that_matches_decides(text: str, path: str, expected: bool | None) -> None:
    assert is_left_out(read_patterns(text), path, is_folder=False) is expected


def test_a_slash_at_the_end_means_folders() -> None:
    assert is_left_out(read_patterns("build/"), "a/build", is_folder=True)
    assert is_left_out(read_patterns("build/"), "a/build", is_folder=False) is None


def test_patterns_hold_below_the_folder_of_their_file() -> None:
    patterns = read_patterns("/data\nx", "sub/")
    assert is_left_out(patterns, "sub/data", is_folder=False)
    assert is_left_out(patterns, "sub/deep/x", is_folder=False)
    assert is_left_out(patterns, "data", is_folder=False) is None
    assert is_left_out(patterns, "x", is_folder=False) is None


GIT = shutil.which("git")
words = st.text(alphabet="ab*?[]!-^/\\# .", min_size=1, max_size=8).filter(
    lambda text: (
        "/" not in text.partition("[")[2]
    )  # a choice of letters that has a slash: git itself is of two minds
)
names = st.text(alphabet="ab-#! ].", min_size=1, max_size=3).filter(
    lambda name: name not in (".", "..") and name == name.strip()
)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)


@pytest.mark.skipif(GIT is None, reason="git is not installed")
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(lines=st.lists(words, min_size=1, max_size=4), path=paths)
def test_git_would_say_the_same(tmp_path_factory: pytest.TempPathFactory, lines: list[str], path: str) -> None:
    assert GIT is not None
    top = tmp_path_factory.getbasetemp() / "git-says"
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    if not (top / ".git").is_dir():
        subprocess.run([GIT, "init", "-q", str(top)], check=True, env=quiet)
    text = "\n".join(lines)
    (top / ".gitignore").write_text(text + "\n")
    said = subprocess.run(
        [GIT, "-C", str(top), "check-ignore", "-q", "--no-index", "--", path], check=False, env=quiet
    ).returncode
    assert (said == 0) == left_out(text, path)


def left_out(text: str, path: str) -> bool:
    """Whether a file, or a folder above it, is left out."""
    patterns, parts = read_patterns(text), Path(path).parts
    folders = ["/".join(parts[:length]) for length in range(1, len(parts))]
    return any(is_left_out(patterns, folder, is_folder=True) for folder in folders) or bool(
        is_left_out(patterns, path, is_folder=False)
    )
