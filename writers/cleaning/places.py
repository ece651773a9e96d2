"""Where files of a table lie that may be left over, and which of them nobody has to ask about.

    manifest/*  index/*  statistics/*                             whatever no root names
    [<data dir>/][k=v/...]bucket-<n>/*  in the table, and below the external paths: the same
    [branch/branch-*/]snapshot/*  changelog/*                     what is neither a snapshot or changelog nor a hint
    [branch/branch-*/]schema/*  tag/*  consumer/*                 hidden temporaries of writers that were killed

Everything else is not looked at, whoever has put it there; `LocalOrphanFilesClean` of Paimon takes the same places but
the last. Partition folders count only with the partition keys of the table in their order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import TableNotFound
from morrow.engine.format.partition_path import escape_path_name
from morrow.engine.format.paths import MAIN_BRANCH, normalised
from morrow.engine.io.store import FileStatus, FileStore
from morrow.engine.plan.metadata import TableMetadata

NAMED = r"(?:manifest|index|statistics)/[^/]+"
BRANCH = "(?:branch/branch-[^/]+/)?"
STRAYS = (
    rf"{BRANCH}snapshot/(?:[^/]+)",
    rf"{BRANCH}changelog/(?:[^/]+)",
    rf"{BRANCH}(?:schema|tag|consumer)/\.[^/]+\.[0-9a-f]{{32}}\.tmp",
)
NO_STRAY = r"/(?:snapshot/snapshot-|changelog/changelog-|(?:snapshot|changelog)/(?:(?:EARLIEST|LATEST)$|retired-))"
"""Roots, hints, and what a maintenance that was killed will look for."""
FILE = "[^/]+"
BUCKET = r"bucket-(?:[0-9]+|postpone)"

PATH, NAME, SIZE, MODIFIED, IS_FOLDER = "path", "name", "size", "modified", "folder"
_SCHEMA = {PATH: pl.String, NAME: pl.String, SIZE: pl.Int64, MODIFIED: pl.Int64, IS_FOLDER: pl.Boolean}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """A folder that is walked, and what is looked at in it: patterns of whole paths.

    `files` have names that roots may have given them, `strays` do not; `folders` are those of buckets and partitions,
    which go when nothing is in them.
    """

    root: str
    files: str
    strays: str | None
    folders: str | None

    def walk(self, store: FileStore, before_millis: int, below: str | None = None) -> Iterator[pl.DataFrame]:
        """All that lies here, or below a folder of it, in pieces as `piece_of` makes them."""
        for piece in store.walk(self.root if below is None else below):
            yield piece_of(piece, before_millis)

    @property
    def is_file(self) -> pl.Expr:
        return ~pl.col(IS_FOLDER) & pl.col(PATH).str.contains(self.files)

    @property
    def is_stray(self) -> pl.Expr:
        if self.strays is None:
            return pl.lit(False)
        return ~pl.col(IS_FOLDER) & pl.col(PATH).str.contains(self.strays) & ~pl.col(PATH).str.contains(NO_STRAY)

    @property
    def is_data_folder(self) -> pl.Expr:
        return pl.col(IS_FOLDER) & pl.col(PATH).str.contains(self.folders) if self.folders else pl.lit(False)


def piece_of(found: Iterable[tuple[str, FileStatus]], before_millis: int) -> pl.DataFrame:
    """Paths with what is there: columns path, name, size, modified, folder, and old (last changed before)."""
    rows = [(path, status.name, status.size, status.modified_millis, status.is_dir) for path, status in found]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(old=pl.col(MODIFIED) < before_millis)


def places(tables: Iterable[TableMetadata]) -> list[Place]:
    """The table's own folder and the external paths that the options of its branches name, within its store.

    Raises:
        CorruptFile, Unsupported, InvalidArgument: a schema or option that cannot be read.
    """
    found = list(tables)
    data, folders, external = set[str](), set[str](), dict[str, set[str]]()
    for table in found:
        try:
            schema = table.latest_schema()
        except TableNotFound:
            if table.branch == MAIN_BRANCH:
                raise
            continue  # the branch was deleted meanwhile
        options = table.options(schema)
        inside = [pl.escape_regex(part) for part in (options.data_directory or "").split("/") if part]
        levels = [f"{pl.escape_regex(escape_path_name(key))}=[^/]+" for key in schema.partition_keys]
        bucket = "/".join([*levels, BUCKET])
        data.add("/".join([*inside, bucket, FILE]))
        folders |= {"/".join([*inside, *levels[:depth]]) for depth in range(1, len(levels) + 1)}
        folders.add("/".join([*inside, bucket]))
        for path in options.external_roots:
            if (root := _in_store(table, path)) is not None:
                external.setdefault(root, set()).add(f"{bucket}/{FILE}")
    root = found[0].root
    own = Place(root, _below(root, [NAMED, *data]), _below(root, STRAYS), _below(root, folders))
    return [own, *(Place(path, _below(path, kinds), None, None) for path, kinds in sorted(external.items()))]


def _below(root: str, patterns: Iterable[str]) -> str:
    return f"^{pl.escape_regex(root.rstrip('/'))}/(?:{'|'.join(sorted(patterns))})$"


def _in_store(table: TableMetadata, path: str) -> str | None:
    location, base = normalised(path), table.store.url("")
    if location.startswith(base) and ".." not in location.split("/"):
        return location.removeprefix(base).rstrip("/") or None
    log.warning("%s: orphan files below %s are not looked for: it is in another store", table.where, path)
    return None
