"""Lays out the sources of the documentation site: the repository's texts and what they link to, where they stand.

``make docs`` builds ``build/site`` from them.  Links between texts are the ones that also work in a checkout, so a
broken one fails the build (MkDocs in strict mode), without any network.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "build" / "pages"
TEXTS = ("*.md", "LICENSE", "docs/**/*", "examples/*")


def lay_out(pages: Path) -> None:
    """Copies every text of the site, and what texts may link to, into an empty folder."""
    for pattern in TEXTS:
        for source in sorted(ROOT.glob(pattern)):
            if source.is_file():
                target = pages / source.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)


def main() -> None:
    """Copy them anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    lay_out(PAGES)


if __name__ == "__main__":
    main()
