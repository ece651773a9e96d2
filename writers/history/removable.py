"""Where files that nothing needs any more lie, as far as they may be removed, and the folders that they leave empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from morrow.engine.format.paths import check_segments, in_store
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.store import FileStore
from morrow.engine.options import TableOptions
from morrow.engine.plan.data_files import external, file_paths
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.telling import logger

log = logger(__name__)


def data_paths(metadata: TableMetadata, schema: TableSchema, options: TableOptions, names: pl.DataFrame) -> list[str]:
    """Returns the paths of data files, without those that are not removed."""
    if not names.height:
        return []
    check_segments(names["_FILE_NAME"], metadata.where)
    return file_paths(metadata, schema, options, _reachable(metadata, names)).to_list()


def _reachable(metadata: TableMetadata, names: pl.DataFrame) -> pl.DataFrame:
    """Drops names of files outside of the table's folder, unless the caller named their root: these are not removed.

    Paths in the table's own options may hold files of others: they are used for reading only.
    """
    outside = names["_EXTERNAL_PATH"]
    if outside.null_count() == names.height:
        return names
    roots = [metadata.root, *metadata.removable_roots]
    allowed = [path is None or _is_below(in_store(metadata.store, path), roots) for path in outside]
    if left := [path for path, inside in zip(outside, allowed) if not inside]:
        log.warning(
            "%s: %d files that are not needed any more were left where they are, outside of the table's folder: "
            "%s%s; if they are this table's, name their folder in allowed_roots and remove them by hand",
            *(metadata.where, len(left), left[0], " and others" if len(left) > 1 else ""),
        )
    return names.filter(pl.Series(allowed, dtype=pl.Boolean))


def _is_below(path: str | None, roots: Sequence[str]) -> bool:
    return path is not None and any(not root or path.startswith(f"{root.rstrip('/')}/") for root in roots)


def index_paths(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, indexes: pl.DataFrame
) -> list[str]:
    """Returns the paths of index files, without those that are not removed."""
    if not indexes.height:
        return []
    check_segments(indexes["_FILE_NAME"], metadata.where)
    reachable = _reachable(metadata, indexes)
    if options.index_in_data_dir:
        return file_paths(metadata, schema, options, reachable).to_list()
    return [
        metadata.paths.index(name) if path is None else external(metadata, options, path)
        for name, path in reachable.select("_FILE_NAME", "_EXTERNAL_PATH").iter_rows()
    ]


def remove_empty_folders(store: FileStore, root: str, removed: Iterable[str]) -> None:
    """Removes the folders of removed files, and those above them, if they are empty; never the table's own.

    A writer that has just created such a folder creates it again when it writes a file there.

    Args:
        removed: paths of the removed files.
    """
    folders = {path.rpartition("/")[0] for path in removed}
    while folders:
        empty = {folder for folder in folders if folder.startswith(f"{root}/") and store.remove_empty_folder(folder)}
        folders = {folder.rpartition("/")[0] for folder in empty}
