"""Links between the texts of the repository lead somewhere."""

from __future__ import annotations

import ast
import functools
import re
import runpy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
TEXTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")


def anchors(path: Path) -> set[str]:
    """What headings of a text can be linked to as."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def broken_links(text: Path) -> list[str]:
    """What is wrong with the links of a text to files next to it."""
    outside_code = re.sub(r"```.*?```|`[^`\n]*`", "", text.read_text(encoding="utf-8"), flags=re.DOTALL)
    found = list[str]()
    for target, anchor in LINK.findall(outside_code):
        if "://" in target or target.startswith("mailto:"):
            continue
        path = (text.parent / target).resolve() if target else text
        if not path.exists():
            found.append(f"{target} does not exist")
        elif anchor and path.suffix == ".md" and anchor[1:] not in anchors(path):
            found.append(f"{target} has no heading {anchor}")
    return found


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(text: Path) -> None:
    assert not broken_links(text)


TESTS_NAMED = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")


@pytest.mark.parametrize("text", ["docs/reliability.md", "docs/cluster.md"])
def test_every_test_that_is_named_is_there(text: str) -> None:
    named = TESTS_NAMED.findall((ROOT / text).read_text(encoding="utf-8"))
    assert named
    for path, name in named:
        assert (ROOT / path).is_file(), path
        if name:
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), name


def test_each_of_the_faults_of_a_cluster_has_its_row() -> None:
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    [rows] = re.findall(r"## Faults of a cluster.*?(?=\n## )", text, re.DOTALL)
    found = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|$", rows, re.MULTILINE)
    assert [int(number) for number, _ in found] == list(range(1, 24))
    assert all(re.search(r"tests/|bench-cluster|the same|row \d|not tested", test) for _, test in found)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that MkDocs is given."""
    pages = tmp_path_factory.mktemp("pages")
    runpy.run_path(str(ROOT / "tools" / "pages.py"))["lay_out"](pages)
    return pages


def test_every_page_of_the_sites_navigation_is_laid_out(site: Path) -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = [page for entry in nav for page in entry.values()]
    assert len(pages) > 15
    assert not [page for page in pages if not (site / page).is_file()]


def test_every_link_of_the_site_leads_to_what_is_laid_out(site: Path) -> None:
    broken = {str(text.relative_to(site)): broken_links(text) for text in sorted(site.rglob("*.md"))}
    assert len(broken) > 20
    assert not {text: links for text, links in broken.items() if links}


def recipe(target: str) -> str:
    """A rule of the Makefile, with its prerequisites."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(target)}:.*\n(?:\t.*\n)*", makefile, re.MULTILINE)
    assert found is not None
    return found[0]


def test_the_site_is_built_strictly_from_what_make_install_has_installed() -> None:
    """So it needs no network afterwards, and the same tools everywhere."""
    assert "$(DOCS)/.installed" in recipe("install")
    assert recipe("docs").startswith("docs: install ")
    assert "pip" not in recipe("docs")
    assert "mkdocs build --quiet --strict" in recipe("docs")
    pins = (ROOT / "tools" / "docs-requirements.txt").read_text(encoding="utf-8").splitlines()[1:]
    assert any(pin.startswith("mkdocs==") for pin in pins)
    assert not [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.]+", pin)]


GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^\| (\*\*.*) \| (.*) \| (.*) \|$", GLOSSARY, re.MULTILINE)
"""(word, meaning, where) of every row."""


@pytest.mark.parametrize("where", sorted({path for _, _, paths in ENTRIES for path in paths.split(", ")}))
def test_every_path_of_the_glossary_exists(where: str) -> None:
    assert re.fullmatch(r"`[\w/.]+`", where), f"{where} is not a path in backticks"
    assert (ROOT / "src" / "elastane" / where.strip("`")).exists()


def test_the_glossary_has_a_meaning_and_a_place_for_every_word_and_fits_a_page() -> None:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| **")]
    assert len(ENTRIES) == len(rows)
    assert 30 < len(rows) < 70
    words = [word for entry, _, _ in ENTRIES for word in re.findall(r"\*\*(.*?)\*\*", entry)[0].split(", ")]
    assert len(set(words)) == len(words), "a word is explained twice"


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
NAME = re.compile(r"`([a-z_]+(?:/[a-z_]+)*)`")
NO_MODULES = {"oracle"}
"""Words in backticks that are options."""


def test_every_module_that_the_architecture_names_exists() -> None:
    source = ROOT / "src" / "elastane"
    parts = [
        path.relative_to(source).with_suffix("").parts
        for path in source.rglob("*")
        if path.suffix in ("", ".py")
    ]
    ends = {"/".join(part[-length:]) for part in parts for length in (1, 2, 3)}
    assert set(NAME.findall(ARCHITECTURE)) - ends <= NO_MODULES


@pytest.mark.parametrize("walk", ["A live job", "A simulated job", "A training step"])
def test_a_walk_through_the_house_names_at_most_thirty_modules(walk: str) -> None:
    text = ARCHITECTURE.split(f"## {walk}\n")[1].split("\n## ")[0]
    assert 10 < len(set(NAME.findall(text))) <= 30


TEST = re.compile(
    r"(?P<path>\btests/[\w/.-]*\w)"
    r"|(?P<guide>`(?!tests/)(?:\w+/)*test_\w+\.py(?:::test_\w+)?`)"
    r"|::\s?(?P<name>test_\w+)"
    r"|(?P<bare>(?<![\w/:.])test_\w+)"
)
"""A file or folder; a test of the guide's, below ``tests/train``; a test in the file that was named last; neither."""
GUIDE = ROOT / "docs" / "elastic.md"
"""Its table leaves ``tests/train/`` out, and has a test of its own (tests/train/test_guide.py)."""


@functools.cache
def defined(file: Path) -> frozenset[str]:
    """Names of tests in a file: what only stands in a comment or a text is none."""
    nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
    return frozenset(n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def dangling(text: str, *, guide: bool = False) -> list[str]:
    """What a text says of tests that is not so: files and tests that are not there, and names without a file."""
    file, wrong = ROOT, list[str]()
    for found in TEST.finditer(re.sub(r"\s+", " ", text)):
        if found["path"]:
            file = ROOT / found["path"]
            wrong += [] if file.exists() else [found["path"]]
        elif found["name"]:
            known = file.suffix == ".py" and file.is_file() and found["name"] in defined(file)
            wrong += [] if known else [f"{file.name}::{found['name']}"]
        elif not (guide and found["guide"]):
            wrong.append(f"{found[0]} (in which file?)")
    return wrong


@pytest.mark.parametrize("text", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_a_text_names_exists(text: Path) -> None:
    assert dangling(text.read_text(encoding="utf-8"), guide=text == GUIDE) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("(tests/test_docs.py::test_texts_are_found,\n  ::test_every_test_that_a_text_names_exists)", 0),
        ("(tests/test_docs.py::\n  test_texts_are_found) and all of `tests/service/api`", 0),
        ("tests/test_nowhere.py", 1),
        ("tests/test_docs.py::test_that_is_only_a_text", 1),  # as here
        ("(tests/test_docs.py, ::test_that_nobody_wrote)", 1),
        ("(`test_texts_are_found`)", 1),
        ("(tests/test_docs.py, test_constraints.py)", 1),
        ("`worker/test_clipping.py`", 1),
    ],
)
def test_a_reference_that_leads_nowhere_is_found(text: str, wrong: int) -> None:
    assert len(dangling(text)) == wrong


def test_texts_are_found() -> None:
    assert len(TEXTS) > 20
