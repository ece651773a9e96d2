"""The documentation site builds without warnings, and can be read and searched without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    return folder


def test_every_page_of_the_tree_is_in_the_site(site: Path) -> None:
    pages = {page.relative_to(ROOT / "docs").with_suffix("") for page in (ROOT / "docs").rglob("*.md")}

    assert {str(page) for page in pages if not (site / f"{page}.html").exists()} == set()
    assert "Morrow reads and writes" in (site / "index.html").read_text()


def test_no_page_loads_anything_from_the_network(site: Path) -> None:
    loaded = re.compile(r'<(?:script|img|iframe|link rel="?(?:stylesheet|icon))"?[^>]*(?:src|href)="?(https?:[^">\s]+)')
    found = {page.name: loaded.findall(page.read_text()) for page in site.rglob("*.html")}

    assert {name: urls for name, urls in found.items() if urls} == {}


def test_the_search_knows_what_documents_say(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()

    assert "remove_orphan_files" in index
    assert "deletion-vectors.enabled" in index
