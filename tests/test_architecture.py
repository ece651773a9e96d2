"""ARCHITECTURE.md is complete: every path that it names exists, and no package is missing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
LAYERS = ("engine", "readers", "writers", "morrow")
MAX_WORDS, MAX_CELL, MAX_ROWS = 2500, 140, 25


def packages() -> set[str]:
    """Return the paths of packages directly below a layer; links belong to other layers."""
    found = (path.parent for layer in LAYERS for path in (ROOT / layer).glob("*/__init__.py"))
    return {str(path.relative_to(ROOT)) for path in found if not path.is_symlink()}


def test_paths_exist() -> None:
    named = set(re.findall(r"`((?:engine|readers|writers|morrow|docs|tests)/[\w/.]*)`", TEXT))
    assert len(named) > 40
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_the_page_of_byte_layouts_names_modules() -> None:
    source = (ROOT / "docs/site_pages.py").read_text()
    named = re.findall(r'^    \("[^"]+", "([\w/]+)"\),$', source, re.MULTILINE)
    assert len(named) > 9
    assert [name for name in named if not (ROOT / f"engine/format/{name}.py").exists()] == []


def test_packages_are_named() -> None:
    assert len(packages()) > 30
    assert {path for path in packages() if f"`{path}/`" not in TEXT} == set()


def test_it_stays_short() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| --")]
    assert len(TEXT.split()) <= MAX_WORDS
    assert len(rows) - 1 <= MAX_ROWS
    assert max(len(cell.strip()) for row in rows for cell in row.split("|")) <= MAX_CELL
