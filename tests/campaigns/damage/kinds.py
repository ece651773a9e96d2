"""The kinds of files to damage: how to find them in a table, and the reads that follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.campaigns.damage.readings import Reading, as_of, changes, checked, narrowed, newest, rows, system, verified

Readings = Callable[[Path, str], Sequence[Reading]]
"""Returns the reads after this file (a path below the folder) of the intact table in a folder was damaged."""


TAIL_PART, TAIL_BYTES = 8, 1024
"""The tail of a file: an eighth of it, but at least 1024 bytes."""


@dataclass(frozen=True)
class Kind:
    """A kind of files: their paths in the table match `path`, and their content begins with `begins`.

    If `opened`, only files that a read of the newest rows opens are damaged. `tolerated` outcomes are counted but not
    reported: without a checksum, or without checking it, a plain read cannot notice a damage. If `only_tail`, only the
    end of the file is damaged, which holds footers and statistics.
    """

    name: str
    path: str
    begins: bytes = b""
    readings: Readings = lambda sound, _file: newest(sound)
    opened: bool = False
    tolerated: frozenset[str] = frozenset()
    only_tail: bool = False

    def start(self, content: bytes) -> int:
        """Find the first byte that may be damaged."""
        return max(len(content) - max(len(content) // TAIL_PART, TAIL_BYTES), 0) if self.only_tail else 0

    def has(self, table: Path, file: str) -> bool:
        """Return whether this file, a path below `table`, is of this kind."""
        if re.fullmatch(self.path, file) is None:
            return False
        with (table / file).open("rb") as stream:
            return stream.read(len(self.begins)) == self.begins


def files_of(table: Path) -> list[str]:
    """List the paths of all files below `table`, sorted."""
    return sorted(path.relative_to(table).as_posix() for path in table.rglob("*") if path.is_file())


def _of_snapshot(sound: Path, file: str) -> list[Reading]:
    return [*newest(sound), *as_of("snapshot", int(file.rpartition("-")[2]))]


def _of_tag(_sound: Path, file: str) -> list[Reading]:
    return as_of("tag", file.removeprefix("tag/tag-"))


def _of_branch(_sound: Path, file: str) -> list[Reading]:
    return as_of("branch", file.split("/")[1].removeprefix("branch-"))


DATA = {"parquet": r"parquet", "orc": r"orc", "avro": r"avro", "row": r"row", "json": r"json(\.\w+)?", "blob": r"blob"}
"""File name endings by format. Both Java and Morrow write page checksums to Parquet."""


def _data_files() -> Iterator[Kind]:
    """Yield four kinds for each format: read as usual, with ``verify="pages"``, after `Scan.verify`, and in part."""
    for name, ending in DATA.items():
        path = rf"(.*/)?bucket-[^/]+/[^/]+\.{ending}"
        silent = frozenset(("silent",))
        kept = frozenset() if name in ("parquet", "blob") else silent
        yield Kind(f"data.{name}", path, readings=rows, opened=True, tolerated=silent)
        yield Kind(f"data.{name} pages", path, readings=checked, opened=True, tolerated=kept)
        yield Kind(f"data.{name} verify", path, readings=verified, opened=True, tolerated=kept)
        yield Kind(f"data.{name} narrowed", path, readings=narrowed, opened=True, tolerated=silent)
        if name in ("parquet", "orc"):
            tail = f"data.{name} narrowed tail"
            yield Kind(tail, path, readings=narrowed, opened=True, tolerated=silent, only_tail=True)


AVRO, ORC, PARQUET = b"Obj\x01", b"ORC", b"PAR1"
MANIFEST = r"manifest/manifest-(?!list-).*"
LIST = r"manifest/manifest-list-.*"
INDEX_MANIFEST = r"manifest/index-manifest-.*"

KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("schema", r"schema/schema-\d+", opened=True, tolerated=frozenset(("renamed",))),
        Kind("snapshot", r"snapshot/snapshot-\d+", readings=_of_snapshot),
        Kind("tag", r"tag/tag-[^/]+", readings=_of_tag),
        Kind(
            "branch",
            r"branch/branch-[^/]+/(schema|snapshot)/[^/]+",
            readings=_of_branch,
            tolerated=frozenset(("renamed",)),
        ),
        Kind("changelog", r"changelog/changelog-\d+", readings=lambda sound, _file: changes(sound)),
        Kind("hint", r"snapshot/(LATEST|EARLIEST)"),
        *(
            Kind(f"{what}.{suffix}", path, magic, opened=True)
            for what, path in (("manifest-list", LIST), ("manifest", MANIFEST), ("index-manifest", INDEX_MANIFEST))
            for suffix, magic in (("avro", AVRO), ("orc", ORC), ("parquet", PARQUET))
        ),
        *_data_files(),
        Kind("deletion-vectors", r"(.*/)?index-[0-9a-f-]{36}-\d+", b"\x01", opened=True),
        Kind("file-index", r".*\.index", opened=True),
        Kind("statistics", r"statistics/[^/]+", readings=lambda sound, _file: [*newest(sound), *system("statistics")]),
    )
}
"""All kinds by name; add an entry for a new kind."""
