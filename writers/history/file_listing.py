"""Listings of the files in a table's folders that are old enough to be orphans, as hashes of 8 bytes per name.

`FolderListing` walks the folders in this process; `morrow.spark.maintenance.listing` walks them in Spark tasks. The
folders that may contain orphan files, and the files that are orphans there:

    manifest/*  index/*  statistics/*                             files that no root names
    [<data dir>/][k=v/...]bucket-<n>/*  in the table, and below the external paths: the same
    [branch/branch-*/]snapshot/*  changelog/*                     hidden files of killed writers
    [branch/branch-*/]schema/*  tag/*  consumer/*                 hidden temporary files of killed writers

Only files that a root, manifest or index manifest would name can be orphans: data files and their extra files
(`BESIDE`), manifests, indexes, statistics. They are recognized by their names. All other files are left alone. Packs of
blobs (`PACK_SUFFIX`) are named by descriptors in rows, and by the file of references of each data file. A folder is a
partition folder only if it has the table's partition keys in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from morrow.engine.errors import FileMissing, TableNotFound
from morrow.engine.format.blobs import REFERENCES_SUFFIX, decode_references, is_blob_type
from morrow.engine.format.file_formats import BUILT_IN
from morrow.engine.format.paths import MAIN_BRANCH, escape_path_name, to_store_path
from morrow.engine.io.resolve import is_inside
from morrow.engine.io.store import FileStatus, FileStore, read_each
from morrow.engine.plan.data_files import build_file_paths
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.references import list_extra_files
from morrow.engine.progress import advance
from morrow.engine.redaction import get_logger

TEMPORARY = r"\.[^/]+\.(?:tmp|crc)"
NAMED = (
    r"(?:manifest/(?:index-)?manifest-[^/]+|index/(?:index-[^/]+|[^/]*global-index-[^/]+\.index)|statistics/stat-[^/]+"
    rf"|(?:manifest|index|statistics)/{TEMPORARY})"
)
BRANCH = "(?:branch/branch-[^/]+/)?"
STRAYS = (
    rf"{BRANCH}(?:snapshot|changelog)/\.[^/]+",
    rf"{BRANCH}(?:schema|tag|consumer)/\.[^/]+\.[0-9a-f]{{32}}\.tmp",
)
BESIDE = ("index", "blobref", "lookup", "row")
"""Extensions of the extra files of a data file, which the data file's manifest entry names."""
BUCKET = r"bucket-(?:[0-9]+|postpone)"

PATH, NAME, SIZE, MODIFIED, IS_FOLDER = "path", "name", "size", "modified", "folder"
_SCHEMA = {PATH: pl.String, NAME: pl.String, SIZE: pl.Int64, MODIFIED: pl.Int64, IS_FOLDER: pl.Boolean}

log = get_logger(__name__)


@dataclass(frozen=True)
class Place:
    """A folder to walk, and patterns of whole paths for the entries to examine in it.

    Roots may contain the names of `files`, but not of `strays`. `folders` are bucket and partition folders, which are
    removed when empty.
    """

    root: str
    files: str
    strays: str | None
    folders: str | None

    def walk(self, store: FileStore, before_millis: int, below: str | None = None) -> Iterator[pl.DataFrame]:
        """Yield all entries of this folder, or of its subfolder `below`, in frames made by `to_piece`."""
        for piece in store.walk(self.root if below is None else below):
            yield to_piece(piece, before_millis)

    @property
    def is_file(self) -> pl.Expr:
        return ~pl.col(IS_FOLDER) & pl.col(PATH).str.contains(self.files)

    @property
    def is_stray(self) -> pl.Expr:
        if self.strays is None:
            return pl.lit(False)
        return ~pl.col(IS_FOLDER) & pl.col(PATH).str.contains(self.strays)

    @property
    def is_data_folder(self) -> pl.Expr:
        return pl.col(IS_FOLDER) & pl.col(PATH).str.contains(self.folders) if self.folders else pl.lit(False)


def to_piece(found: Iterable[tuple[str, FileStatus]], before_millis: int) -> pl.DataFrame:
    """Return entries as a frame: columns path, name, size, modified, folder, and old (changed before
    `before_millis`)."""
    rows = [(path, status.name, status.size, status.modified_millis, status.is_dir) for path, status in found]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(old=pl.col(MODIFIED) < before_millis)


def find_places(tables: Iterable[TableMetadata]) -> tuple[list[Place], list[str]]:
    """Return the table's own folder, and external paths from options of its branches that the caller allowed.

    Returns: the places, and the external paths that are not examined. These may belong to other tables or stores.

    Raises `CorruptFile`, `Unsupported`, `InvalidArgument`: a schema or option that cannot be read.
    """
    found = list(tables)
    data, folders, external, left = set[str](), set[str](), dict[str, set[str]](), set[str]()
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
        ends = "|".join(map(pl.escape_regex, (*BUILT_IN, *BESIDE, options.file_format)))
        file = rf"(?:[^/]+\.(?:{ends})(?:\.[a-z0-9]+)?|{TEMPORARY})"
        data.add("/".join([*inside, bucket, file]))
        folders |= {"/".join([*inside, *levels[:depth]]) for depth in range(1, len(levels) + 1)}
        folders.add("/".join([*inside, bucket]))
        for path in filter(None, options.external_roots):
            if (root := _find_named_root(table, path)) is not None:
                external.setdefault(root, set()).add(f"{bucket}/{file}")
            else:
                left.add(path)
    root = found[0].root
    own = Place(root, _build_pattern(root, [NAMED, *data]), _build_pattern(root, STRAYS), _build_pattern(root, folders))
    others = (Place(path, _build_pattern(path, kinds), None, None) for path, kinds in sorted(external.items()))
    return [own, *others], sorted(left)


def _build_pattern(root: str, patterns: Iterable[str]) -> str:
    return f"^{pl.escape_regex(root.rstrip('/'))}/(?:{'|'.join(sorted(patterns))})$"


def _find_named_root(table: TableMetadata, path: str) -> str | None:
    """Return an external path within the table's store; None unless it is below a root that the caller named."""
    root = to_store_path(table.store, path)
    if root is None or not is_inside(table.store, f"{root}/.", table.removable_roots):
        log.warning("%s: orphan files below %s are not looked for: it is not below allowed_roots", table.where, path)
        return None
    return root


ENTRY_COLUMNS = ("_FILE_NAME", "_EXTRA_FILES", "_PARTITION", "_BUCKET", "_SCHEMA_ID", "_EXTERNAL_PATH")
"""Columns of entries that `PackReferences` reads."""


class PackReferences:
    """The packs of blobs that data files of all branches need. Each file of references is read once."""

    def __init__(self, tables: Sequence[TableMetadata]) -> None:
        self._table, self._read = tables[0], set[str]()
        schemas = (table.schema(schema_id) for table in tables for schema_id in table.schema_ids())
        keyed = {one.id for one in schemas if one.primary_keys and any(is_blob_type(f.type) for f in one.fields)}
        self._schema_ids = pl.Series(sorted(keyed), dtype=pl.Int64)
        self.is_complete = bool(keyed)
        """Whether all data files with blobs have references. Otherwise it is unknown which packs are needed."""

    def list_names(self, entries: pl.DataFrame) -> pl.Series:
        """Return the names of the packs that the files of entries (`ENTRY_COLUMNS`) need.

        Raises:
            CorruptFile, Unsupported: references that cannot be read. FileMissing: the references of an existing file.
        """
        if not len(self._schema_ids) or not entries.height:
            return pl.Series(dtype=pl.String)
        listed = list_extra_files(entries, ("_FILE_NAME", "_PARTITION", "_BUCKET", "_EXTERNAL_PATH"))
        listed = listed.filter(pl.col("_FILE_NAME").str.ends_with(REFERENCES_SUFFIX)).unique("_FILE_NAME")
        whole = entries["_EXTRA_FILES"].list.eval(pl.element().str.ends_with(REFERENCES_SUFFIX)).list.any()
        holding = entries["_SCHEMA_ID"].cast(pl.Int64).is_in(self._schema_ids.implode())
        self.is_complete &= not (holding & ~whole).any()
        listed = listed.filter(~pl.col("_FILE_NAME").is_in(list(self._read)))
        if not listed.height:
            return pl.Series(dtype=pl.String)
        table, schema = self._table, self._table.latest_schema()
        paths = build_file_paths(table, schema, table.options(schema), listed).to_list()
        found = [pack for packs in read_each(table.store, self._list_packs, paths) for pack in packs]
        self._read |= set(listed["_FILE_NAME"])
        return pl.Series(found, dtype=pl.String).str.replace("^.*/", "")

    def _list_packs(self, path: str) -> list[str]:
        try:
            return decode_references(self._table.store.read(path), path)
        except FileMissing:
            if self._table.store.exists(path.removesuffix(REFERENCES_SUFFIX)):
                raise
            return []  # the data file is gone as well, as files of DELETE entries are


COLUMNS = {PATH: pl.String, NAME: pl.String, SIZE: pl.Int64}


@dataclass(frozen=True)
class ListedFiles:
    """Hashes of the names of all old files (UInt64), old strays (columns `COLUMNS`), and old folders that are empty."""

    hashes: pl.Series
    strays: pl.DataFrame
    empty: Sequence[str]


class Listing(Protocol):
    """A listing of the old files in some places."""

    def listed(self) -> ListedFiles:
        """Return the old files, strays and empty folders. Raises `StorageError`."""

    def paths(self, hashes: pl.Series) -> pl.DataFrame:
        """Return the old files whose names have these hashes, columns `COLUMNS`. Raises `StorageError`."""


@dataclass(frozen=True)
class FolderListing:
    """A listing that walks the folders of its places in this process."""

    store: FileStore
    places: Sequence[Place]
    before_millis: int

    def listed(self) -> ListedFiles:
        return combine_listings(
            list_old_files(place, place.walk(self.store, self.before_millis), self.before_millis)
            for place in self.places
        )

    def paths(self, hashes: pl.Series) -> pl.DataFrame:
        found = [
            find_listed_files(place, piece, hashes)
            for place in self.places
            for piece in place.walk(self.store, self.before_millis)
        ]
        return pl.concat([pl.DataFrame(schema=COLUMNS), *found])


def list_old_files(place: Place, pieces: Iterable[pl.DataFrame], before_millis: int) -> ListedFiles:
    """Collect the old files in the pieces of a walk. A folder is empty when none of the pieces has an entry in it."""
    hashes, strays, folders = [pl.Series(dtype=pl.UInt64)], [pl.DataFrame(schema=COLUMNS)], []
    parents = pl.Series(dtype=pl.String)
    for piece in pieces:
        advance(files=piece.height)
        old = piece.filter("old")
        hashes.append(old.filter(place.is_file)[NAME].hash())
        strays.append(old.filter(place.is_stray).select(COLUMNS.keys()))
        folders.append(piece.filter(place.is_data_folder).select(PATH, MODIFIED))
        parents = pl.concat([parents, piece[PATH].str.replace("/[^/]*$", "")]).unique()
    empty: list[str] = []
    if folders:
        unused = pl.col(MODIFIED) < before_millis, ~pl.col(PATH).is_in(parents.implode())
        empty = pl.concat(folders).filter(*unused)[PATH].to_list()
    return ListedFiles(pl.concat(hashes).unique(), pl.concat(strays), empty)


def combine_listings(parts: Iterable[ListedFiles]) -> ListedFiles:
    """Combine the listings of several parts of the folders."""
    found = list(parts)
    hashes = [pl.Series(dtype=pl.UInt64), *(part.hashes for part in found)]
    strays = [pl.DataFrame(schema=COLUMNS), *(part.strays for part in found)]
    return ListedFiles(pl.concat(hashes).unique(), pl.concat(strays), [path for part in found for path in part.empty])


def find_listed_files(place: Place, piece: pl.DataFrame, hashes: pl.Series) -> pl.DataFrame:
    """Return the old files in a piece of a walk whose names have these hashes, columns `COLUMNS`."""
    old = piece.filter("old", place.is_file)
    return old.filter(pl.col(NAME).hash().is_in(hashes.implode())).select(COLUMNS.keys())
