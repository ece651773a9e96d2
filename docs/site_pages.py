"""Pages of the site that lie elsewhere in the tree, as a hook of mkdocs: README, ARCHITECTURE, RESULTS and others.

They are taken as they are; their links, and links to them, are turned to the places that they have in the site. The
page of byte layouts is made of the docstrings of the modules that read and write them.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "ARCHITECTURE.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "bench/RESULTS.md": "benchmarks.md",
}
"""Path in the tree -> path in the site; pages below docs/ keep their paths without it."""

PLOTS = "bench/plots/"
FORMATS = (
    ("Snapshots and tags", "snapshot"),
    ("Schemas", "schema"),
    ("Files and partition folders", "paths"),
    ("Avro containers", "avro"),
    ("Manifests", "manifest"),
    ("Data files in manifests, statistics", "manifest_entries"),
    ("BinaryRow", "binary_row"),
    ("Buckets and hash indexes", "buckets"),
    ("Deletion vectors", "deletion_vectors"),
    ("Roaring bitmaps", "roaring_bitmaps"),
    ("File indexes", "file_index/container"),
)
"""Title -> module of engine/format."""

LINK = re.compile(r"\[(?P<text>[^\]\n]*(?:\n[^\]\n]*)?)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and the plots that they show."""
    for source, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "layouts.md", content=layouts()))
    for plot in sorted((ROOT / PLOTS).glob("*.svg")):
        files.append(File.generated(config, f"plots/{plot.name}", abs_src_path=str(plot)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001 (mkdocs passes it by name)
    """Turn links of a page to the site's places; of a link to a file that the site lacks, the text stays."""
    here = page.file.src_uri
    source = next((path for path, target in PAGES.items() if target == here), f"docs/{here}")

    def turned(link: re.Match[str]) -> str:
        target = in_site(posixpath.normpath(posixpath.join(posixpath.dirname(source), link["path"])))
        if files.get_file_from_path(target) is None:
            return link["text"]
        relative = posixpath.relpath(target, posixpath.dirname(here) or ".")
        return f"[{link['text']}]({relative}{link['anchor'] or ''})"

    return LINK.sub(turned, markdown)


def layouts() -> str:
    """Return the page of byte layouts, in Markdown."""
    lines = ["# Byte layouts", "", "What Morrow reads and writes by itself, as the modules that do it describe it."]
    for title, module in FORMATS:
        text = ast.get_docstring(ast.parse((ROOT / "engine" / "format" / f"{module}.py").read_text())) or ""
        blocks = re.sub(r"::$", ":", text, flags=re.MULTILINE)
        lines += ["", f"## {title}", "", f"`morrow.engine.format.{module.replace('/', '.')}`", "", blocks]
    return "\n".join(lines) + "\n"


def in_site(path: str) -> str:
    """Return the path in the site of a path in the tree."""
    if path.startswith(PLOTS):
        return path.removeprefix("bench/")
    return PAGES.get(path, path.removeprefix("docs/"))
