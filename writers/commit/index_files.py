"""The index files of a table after a commit, by the rules of Java's IndexManifestFileHandler.

==========================================  ==================================================================
index                                       new files replace
==========================================  ==================================================================
HASH; DELETION_VECTORS with buckets         all files of that index in the bucket: there is one file per bucket
DELETION_VECTORS of tables without buckets  the files that the commit deletes by name; a data file has one vector
any other (global indexes)                  the files that the commit deletes by name
==========================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from morrow.engine.errors import CommitConflict, InvalidArgument
from morrow.engine.format.data_file_meta import IndexEntry
from morrow.engine.format.entry_frames import index_frame
from morrow.engine.format.manifest_columns import ADD, DELETION_VECTORS_INDEX, HASH_INDEX
from morrow.writers.commit.routes import Misplaced

BUCKET = ["_PARTITION", "_BUCKET", "_INDEX_TYPE"]
NAME = ["_INDEX_TYPE", "_FILE_NAME"]


def combined(previous: pl.DataFrame | None, changes: Sequence[IndexEntry], *, unaware: bool) -> pl.DataFrame:
    """Returns the index files after these changes, columns of `decode_index_manifest`.

    Args:
        previous: the index files before, None for none.
        unaware: whether the table has no buckets (an append table with ``bucket = -1``).

    Raises:
        CommitConflict: an index file to delete is gone, a data file would get a second deletion vector, or a bucket
            has an index file that the commit does not name: another commit wrote it, from changes not seen here.
        InvalidArgument: two index files for one bucket, of which Java would keep one.
    """
    changed = index_frame(changes)
    if previous is None:
        previous = changed.clear()
    is_new = changed["_KIND"] == ADD
    added, removed = changed.filter(is_new), changed.filter(~is_new)
    _check_single(added.filter(_by_bucket(added, unaware)))
    per_bucket = _by_bucket(previous, unaware)
    touched = changed.filter(_by_bucket(changed, unaware)).select(BUCKET)
    _check_replaced(previous.filter(per_bucket).join(touched, on=BUCKET, how="semi", maintain_order="left"), removed)
    buckets = previous.filter(per_bucket).join(touched, on=BUCKET, how="anti", maintain_order="left")
    named = previous.filter(~per_bucket).join(removed.select(NAME), on=NAME, how="anti", maintain_order="left")
    if unaware:
        _check_vectors(previous, named, added, removed)
    return pl.concat([buckets, named, added])


def _by_bucket(frame: pl.DataFrame, unaware: bool) -> pl.Series:
    return frame["_INDEX_TYPE"].is_in([HASH_INDEX] if unaware else [HASH_INDEX, DELETION_VECTORS_INDEX])


def _check_single(added: pl.DataFrame) -> None:
    twice = added.select(BUCKET).is_duplicated()
    if twice.any():
        names = ", ".join(added["_FILE_NAME"].filter(twice).head(2))
        raise InvalidArgument(f"two index files for one bucket ({names}); a bucket has one of each kind")


def _check_replaced(replaced: pl.DataFrame, removed: pl.DataFrame) -> None:
    unseen = replaced.join(removed.select(NAME), on=NAME, how="anti", maintain_order="left")
    if unseen.height:
        conflict = Misplaced if unseen["_INDEX_TYPE"][0] == HASH_INDEX else CommitConflict
        raise conflict(
            f"the index file {unseen['_FILE_NAME'][0]} was written by somebody else meanwhile; read again and retry"
        )


def _check_vectors(previous: pl.DataFrame, named: pl.DataFrame, added: pl.DataFrame, removed: pl.DataFrame) -> None:
    vectors = removed.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX)
    gone = vectors.join(previous.select(NAME), on=NAME, how="anti")
    if gone.height:
        raise CommitConflict(f"the deletion vectors {gone['_FILE_NAME'][0]} to replace are gone; read again and retry")
    files = vector_files(pl.concat([named, added]))["data_file"]
    if files.is_duplicated().any():
        raise CommitConflict(
            f"the data file {files.filter(files.is_duplicated())[0]} would have two deletion vectors; "
            "somebody else deleted rows of it: read again and retry"
        )


def vector_files(index: pl.DataFrame) -> pl.DataFrame:
    """Returns a row per deletion vector: ``data_file``, ``index_file`` and ``kind`` of its entry."""
    return (
        index.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX)
        .select(
            pl.col("_DELETIONS_VECTORS_RANGES").list.eval(pl.element().struct.field("f0")).alias("data_file"),
            pl.col("_FILE_NAME").alias("index_file"),
            pl.col("_KIND").alias("kind"),
        )
        .explode("data_file")
        .drop_nulls("data_file")
    )
