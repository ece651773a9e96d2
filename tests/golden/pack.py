"""Pack a tree of golden tables into ``tables.tar.xz``: ``python tests/golden/pack.py TREE``.

TREE holds ``public/<case>/`` and ``versions/<version>/<case>/``. Files of one kind and case are adjacent in the
archive and the dictionary spans all of it, because the sets hold the same cases written by different versions.
"""

from __future__ import annotations

import lzma
import sys
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("tables.tar.xz")
DICTIONARY_BYTES = 192 << 20
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": DICTIONARY_BYTES}]
KINDS = ("schema", "snapshot", "tag", "manifest", "index", "input", "expected")
"""Folders whose files resemble each other across cases; all other files are sorted by suffix."""


def neighbourhood(path: Path) -> tuple[str, ...]:
    """Return a sort key that puts similar files next to each other: kind, case, then the rest of the path."""
    case = path.parts[1] if path.parts[0] == "public" else path.parts[2]
    kind = next((part for part in path.parts[:-1] if part.split("-")[0] in KINDS), path.suffix)
    shape = "list" if path.name.startswith("manifest-list") else ""
    return (kind.split("-")[0], shape, case, path.name if kind in ("expected", "input") else "", *path.parts)


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Clear owner and time of a member, so that equal trees give equal archives."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def pack(tree: Path, archive: Path) -> None:
    paths = [p for p in tree.rglob("*") if p.is_file() or (p.is_dir() and not any(p.iterdir()))]
    names = sorted((p.relative_to(tree) for p in paths), key=neighbourhood)
    with lzma.open(archive, "wb", filters=FILTERS) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for name in names:
            tar.add(tree / name, arcname=str(name), recursive=False, filter=anonymous)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), ARCHIVE)
