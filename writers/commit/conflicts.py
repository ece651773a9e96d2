"""Checks of a commit for conflicts with concurrent commits, as in Java's ConflictDetection.

* a file that is deleted (or gets a deletion vector) must still be in the table, and an added file must be new;
* above level 0 the key ranges of a bucket's files must not overlap;
* the number of buckets of a partition only changes by overwriting it;
* with data evolution, files that share row ids have the same ones, and a file of columns needs files of its rows;
* the files in which a compaction looked up keys must still be all files above level 0, and the rows that it moves from
  bucket -2 must be newer than all rows of their bucket. (Java has neither check.)

All checks work on frames, of the changed partitions only. The index files of a table after a commit are determined as
in Java's IndexManifestFileHandler:

==========================================  ==================================================================
index                                       new files replace
==========================================  ==================================================================
HASH; DELETION_VECTORS with buckets         all files of that index in the bucket: there is one file per bucket
DELETION_VECTORS of tables without buckets  the files that the commit deletes by name; a data file has one vector
any other (global indexes)                  the files that the commit deletes by name
==========================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from morrow.engine.errors import CommitConflict, InvalidArgument, NotFound, Unsupported
from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.file_formats import VECTOR_INFIX, is_dedicated_file
from morrow.engine.format.manifest_entries import (
    ADD,
    DELETE,
    DELETION_VECTORS_INDEX,
    HASH_INDEX,
    DataFileMeta,
    IndexEntry,
    IndexFileMeta,
    index_entries_of,
    index_frame,
    to_data_files,
)
from morrow.engine.format.snapshot import COMPACT, Snapshot
from morrow.engine.names import ADDS, ALONE, BASE, CHANGED, DELETED_FIRST, DELETES, KIND, VECTOR
from morrow.engine.options.declared.features import GLOBAL_INDEX_COLUMN_UPDATE_ACTION
from morrow.engine.plan.manifests import list_delta_manifests, read_index_entries, read_manifest_entries
from morrow.engine.plan.sections import number_buckets, rank_keys
from morrow.writers.commit.manifests import IDENTITY
from morrow.writers.commit.messages import FirstSequenceNumber, LookupFiles
from morrow.writers.commit.premise import Misplaced
from morrow.writers.target import WriteTarget

ADVICE = "somebody else committed to the same files first: read the table again and retry"
THROW_ERROR, IGNORE = "throw_error", "ignore"
LEVEL = ["_PARTITION", "_BUCKET", "_LEVEL"]


class AlreadyCommitted(InvalidArgument):
    """Error for messages that were committed before. Their files belong to the table, and must not be removed."""

    def __init__(self, where: str, file: str) -> None:
        super().__init__(
            f"{where}: the file {file} of these messages is in the table: they were committed before. Commit with an "
            "identifier, and a commit that is repeated is recognised"
        )


def check_conflicts(
    target: WriteTarget,
    base: pl.DataFrame,
    delta: pl.DataFrame,
    *,
    overwrite: bool,
    base_index: pl.DataFrame | None,
    delta_index: pl.DataFrame | None,
    next_row_id: int | None = None,
) -> None:
    """Raise `CommitConflict` if `delta` cannot follow `base`, `AlreadyCommitted` if `base` contains it.

    Args:
        base: live entries (`SIMPLE_COLUMNS`) of the changed partitions in the newest snapshot.
        delta: the entries to commit, the same columns.
        overwrite: whether to commit an OVERWRITE snapshot, which may change the number of buckets.
        base_index, delta_index: previous and changed index entries (columns of `decode_index_manifest`). They are given
            for tables without buckets that have deletion vectors, since vectors must not be lost either.
        next_row_id: the first row id that `base` does not use, if `delta` may add columns of older rows.
    """
    if target.options.data_evolution:
        _check_row_ids(target, base, delta, next_row_id)
    if delta_index is not None:
        base = _join_vectors(base, base_index)
        delta = _join_delta_vectors(target, base, delta, delta_index)
    else:
        base, delta = (frame.with_columns(pl.lit(None, pl.String).alias(VECTOR)) for frame in (base, delta))
    if not overwrite:
        check_buckets(target, base, delta)
    _check_files(target, base, delta)
    if target.keyed:
        _check_key_ranges(target, base, delta)


def check_lookup_files(target: WriteTarget, base: pl.DataFrame, looked_at: Sequence[LookupFiles]) -> None:
    """Check that the compaction looked up keys in all current files above level 0.

    Otherwise a key may be in a file that the lookup missed. It would be read twice, or its changelog would be wrong.

    Raises `CommitConflict`: another commit compacted a bucket meanwhile.
    """
    if not looked_at:
        return
    above = base.filter(base["_LEVEL"] > 0).group_by("_PARTITION", "_BUCKET").agg("_FILE_NAME")
    there = {(partition, bucket): set(names) for partition, bucket, names in above.iter_rows()}
    for each in looked_at:
        files = there.setdefault((each.partition, each.bucket), set())
        if files != each.files:
            where = f"{_place(target, each.partition)}: bucket {each.bucket}"
            raise CommitConflict(f"{where} was compacted while keys were looked up in it; {ADVICE}")
        files -= each.removed
        files |= each.added


def check_numbers(target: WriteTarget, base: pl.DataFrame, numbered_from: Sequence[FirstSequenceNumber]) -> None:
    """Check that postponed rows that a compaction numbered are newer than all rows in their bucket.

    Raises `CommitConflict`: another commit wrote to the bucket meanwhile.
    """
    for each in numbered_from:
        there = base.filter(pl.col("_PARTITION") == pl.lit(each.partition), pl.col("_BUCKET") == each.bucket)
        newest = there["_MAX_SEQUENCE_NUMBER"].max()
        if isinstance(newest, int) and newest >= each.number:
            where = f"{_place(target, each.partition)}: bucket {each.bucket}"
            raise CommitConflict(f"{where} was written to while rows that wait were brought there; {ADVICE}")


def check_buckets(target: WriteTarget, base: pl.DataFrame, delta: pl.DataFrame) -> None:
    """Raise `CommitConflict` if a partition would have files with different numbers of buckets."""
    columns = ["_PARTITION", "_TOTAL_BUCKETS"]
    totals = pl.concat([frame.select(columns).unique(maintain_order=True) for frame in (base, delta)])
    totals = totals.filter(totals["_TOTAL_BUCKETS"] > 0).unique(maintain_order=True)
    changed = totals.filter(totals["_PARTITION"].is_duplicated())
    if changed.height:
        old, new = changed.join(changed[:1], on="_PARTITION", how="semi", maintain_order="left")["_TOTAL_BUCKETS"][:2]
        raise CommitConflict(
            f"{_place(target, changed['_PARTITION'][0])}: the number of buckets changed from {old} to {new} without "
            "overwriting; overwrite the partition, or set the option 'bucket' back"
        )


def _check_files(target: WriteTarget, base: pl.DataFrame, delta: pl.DataFrame) -> None:
    """Check that deleted files are in the base and added files are not."""
    identity = [*IDENTITY, VECTOR]
    changes = delta.group_by(identity, maintain_order=True).agg(
        (pl.col("_KIND") == ADD).sum().cast(pl.Int32).alias(ADDS),
        (pl.col("_KIND") == DELETE).sum().cast(pl.Int32).alias(DELETES),
        (pl.col("_KIND").first() == DELETE).alias(DELETED_FIRST),
    )
    known = base.filter(base["_FILE_NAME"].is_in(delta["_FILE_NAME"].implode())).select(identity)
    counted = changes.join(
        known.with_columns(pl.lit(1, pl.Int32).alias(BASE)),
        on=identity,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    ).with_columns(pl.col(BASE).fill_null(0))
    both = (pl.col(ADDS) > 0) & (pl.col(DELETES) > 0) & pl.col(DELETED_FIRST)
    # A file that two compactions move to the same level is in the base as well: that is a conflict.
    lifted = delta["_FILE_NAME"].filter(delta["_KIND"] == DELETE)
    added = (pl.col(BASE) > 0) & (pl.col(ADDS) == 1) & (pl.col(DELETES) == 0)
    there = counted.filter(added & ~pl.col("_FILE_NAME").is_in(lifted.implode()))
    if there.height:
        raise AlreadyCommitted(target.where, there["_FILE_NAME"][0])
    for problem, broken in (
        ("is added or deleted twice by one commit", (pl.col(ADDS) > 1) | (pl.col(DELETES) > 1) | both),
        ("is to be added and is already there", (pl.col(BASE) + pl.col(ADDS)) > 1),
        ("is to be deleted and is not there", (pl.col(BASE) + pl.col(ADDS)) < pl.col(DELETES)),
    ):
        found = counted.filter(broken)
        if found.height:
            raise CommitConflict(
                f"{_place(target, found['_PARTITION'][0])}: the file {found['_FILE_NAME'][0]} (bucket "
                f"{found['_BUCKET'][0]}, level {found['_LEVEL'][0]}) {problem}; {ADVICE}"
            )


def _check_key_ranges(target: WriteTarget, base: pl.DataFrame, delta: pl.DataFrame) -> None:
    """Check that files of a level above 0 do not overlap. Only levels that get a file are checked."""
    columns = [*LEVEL, "_FILE_NAME", "_MIN_KEY", "_MAX_KEY"]
    added = delta.filter((delta["_KIND"] == ADD) & (delta["_LEVEL"] > 0)).select(columns)
    if not added.height:
        return
    gone = delta.filter(delta["_KIND"] == DELETE).select([*LEVEL, "_FILE_NAME"])
    there = base.join(added.select(LEVEL).unique(), on=LEVEL, how="semi").select(columns)
    living = pl.concat([there, added]).join(gone, on=[*LEVEL, "_FILE_NAME"], how="anti")
    if living.height < 2:
        return
    overlapping = _find_overlap(target, living)
    if overlapping is not None:
        one, other = overlapping
        raise CommitConflict(
            f"{_place(target, one['_PARTITION'])}: the keys of the files {one['_FILE_NAME']} and {other['_FILE_NAME']} "
            f"overlap in level {one['_LEVEL']} of bucket {one['_BUCKET']}; two compactions met: {ADVICE}"
        )


def _check_row_ids(target: WriteTarget, base: pl.DataFrame, delta: pl.DataFrame, next_row_id: int | None) -> None:
    """Check that files with the same row ids have the same range of them, or lie in it if they are dedicated.

    With `next_row_id`, files for older rows must belong to files of `base` with exactly these rows.
    """
    columns = ["_FILE_NAME", "_PARTITION", "_BUCKET", "_FIRST_ROW_ID", "_ROW_COUNT"]
    named = delta.filter(delta["_FIRST_ROW_ID"].is_not_null())
    added, gone = named.filter(named["_KIND"] == ADD), named.filter(named["_KIND"] == DELETE)["_FILE_NAME"]
    if not named.height:
        return
    kept = base.filter(base["_FIRST_ROW_ID"].is_not_null() & ~base["_FILE_NAME"].is_in(gone.implode()))
    living = pl.concat([kept.select(columns), added.select(columns)]).sort("_FIRST_ROW_ID", "_ROW_COUNT")
    dedicated = pl.Series(map(is_dedicated_file, living["_FILE_NAME"]), dtype=pl.Boolean)
    whole = living.filter(~dedicated)
    first, rows = (whole[name].to_numpy() for name in columns[-2:])
    last = first + rows - 1
    same = (first[1:] == first[:-1]) & (rows[1:] == rows[:-1])
    meets = (first[1:] <= np.maximum.accumulate(last)[:-1]) & ~same
    if meets.any():
        raise _make_row_error(target, whole.row(int(np.argmax(meets)) + 1, named=True), "overlap those of other files")
    ranges = ["_PARTITION", "_BUCKET", "_FIRST_ROW_ID", "_ROW_COUNT"]
    deleted = named.filter(named["_KIND"] == DELETE).select(ranges).unique()
    left = kept.join(deleted.join(added, on=ranges, how="anti"), on=ranges, how="semi")
    left = left.filter(~pl.Series(map(is_dedicated_file, left["_FILE_NAME"]), dtype=pl.Boolean))
    if left.height:
        raise _make_row_error(target, left.row(0, named=True), "lose the files of their other columns")
    if next_row_id is not None:
        normal = added.filter(~pl.Series(map(is_dedicated_file, added["_FILE_NAME"]), dtype=pl.Boolean))
        older = normal.filter(normal["_FIRST_ROW_ID"] < next_row_id)
        alone = older.join(kept.select(ranges), on=ranges, how="anti")
        if alone.height:
            raise _make_row_error(target, alone.row(0, named=True), "are not those of a file")
    elif (met := _find_new_vectors(kept, added)) is not None:
        raise _make_row_error(target, met, "got new vectors during a compaction")
    parts = living.filter(dedicated)
    at = np.searchsorted(first, parts["_FIRST_ROW_ID"].to_numpy(), side="right") - 1
    ends = (parts["_FIRST_ROW_ID"] + parts["_ROW_COUNT"] - 1).to_numpy()
    outside = (at < 0) | (ends > last[np.maximum(at, 0)]) if len(last) else np.ones(parts.height, bool)
    if outside.any():
        raise _make_row_error(target, parts.row(int(np.argmax(outside)), named=True), "are not those of a data file")


def _find_new_vectors(kept: pl.DataFrame, added: pl.DataFrame) -> dict[str, Any] | None:
    """Return a file of vectors that stays although a compaction adds vectors of its rows; None if none does."""
    stays, new = (frame.filter(frame["_FILE_NAME"].str.contains(VECTOR_INFIX, literal=True)) for frame in (kept, added))
    if not new.height:
        return None
    first, ends = pl.col("_FIRST_ROW_ID"), pl.col("_FIRST_ROW_ID") + pl.col("_ROW_COUNT")
    ranges = new.select(first.alias("low"), ends.alias("high"))
    met = stays.join_where(ranges, first < pl.col("high"), ends > pl.col("low"))
    return met.row(0, named=True) if met.height else None


def _make_row_error(target: WriteTarget, file: Mapping[str, Any], problem: str) -> CommitConflict:
    low, high = file["_FIRST_ROW_ID"], file["_FIRST_ROW_ID"] + file["_ROW_COUNT"] - 1
    where = _place(target, file["_PARTITION"])
    return CommitConflict(f"{where}: the row ids {low} to {high} of {file['_FILE_NAME']} {problem}; {ADVICE}")


def _find_overlap(target: WriteTarget, living: pl.DataFrame) -> tuple[dict[str, Any], dict[str, Any]] | None:
    types = [target.schema.by_name[name].type for name in target.schema.trimmed_primary_keys]
    bounds = decode_columns(pl.concat([living["_MIN_KEY"], living["_MAX_KEY"]]), types, where=target.where)
    low, high = rank_keys(bounds).reshape(2, -1)
    groups = number_buckets(living) * (int(living["_LEVEL"].max()) + 1) + living["_LEVEL"].to_numpy()  # type: ignore[arg-type]  # a column of numbers
    order = np.lexsort((low, groups))
    meet = (groups[order][1:] == groups[order][:-1]) & (low[order][1:] <= high[order][:-1])
    if not meet.any():
        return None
    at = int(np.argmax(meet))
    return living.row(int(order[at]), named=True), living.row(int(order[at + 1]), named=True)


def check_columns(
    target: WriteTarget, latest: Snapshot, planned_on: int, added: Iterable[tuple[bytes, DataFileMeta]]
) -> None:
    """Check that no other commit wrote the same columns of the same rows after snapshot `planned_on`, as Java does.

    `added`: partitions with files of columns of older rows.

    Raises `CommitConflict`: another commit has, or snapshots in between have expired.
    """
    metadata = target.metadata
    own = [(file.first_row_id or 0, file.row_count, set(_list_written_ids(target, file))) for _, file in added]
    try:
        end = metadata.snapshot(planned_on).next_row_id or 0
        later = [metadata.snapshot(number) for number in range(planned_on + 1, latest.id + 1)] if own else []
    except NotFound as error:
        raise CommitConflict(f"{target.where}: snapshots expired while rows were read ({error}); {ADVICE}") from error
    for snapshot in later:
        if snapshot.commit_kind == COMPACT:
            continue
        for frame in read_manifest_entries(metadata, list_delta_manifests(metadata, snapshot)):
            older = frame.filter(pl.col("_FIRST_ROW_ID") < end)
            for first, rows, ids in own if older.height else ():
                begins, ends = pl.col("_FIRST_ROW_ID") < first + rows, pl.col("_FIRST_ROW_ID") + pl.col("_ROW_COUNT")
                met = to_data_files(older.filter(begins, ends > first))
                if any(not ids.isdisjoint(_list_written_ids(target, file)) for file in met):
                    raise CommitConflict(
                        f"{target.where}: snapshot {snapshot.id} wrote the same columns of the row ids {first} to "
                        f"{first + rows - 1}; {ADVICE}"
                    )


def _list_written_ids(target: WriteTarget, file: DataFileMeta) -> Iterator[int]:
    """Yield the ids of the columns that a file holds."""
    fields = target.metadata.schema(file.schema_id).fields
    return (field.id for field in fields if file.write_cols is None or field.name in file.write_cols)


# --- global indexes ---


def list_global_indexes(target: WriteTarget, snapshot: Snapshot | None, partition: bytes) -> list[IndexFileMeta]:
    """Return the global indexes of a partition."""
    index = None if snapshot is None else read_index_entries(target.metadata, snapshot)
    if index is None:
        return []
    own = index["_GLOBAL_INDEX"].is_not_null() & (index["_PARTITION"] == pl.lit(partition, pl.Binary))
    return [entry.file for entry in index_entries_of(index.filter(own))]


def find_stale_indexes(
    target: WriteTarget, snapshot: Snapshot | None, changed: Iterable[tuple[bytes, DataFileMeta]]
) -> list[IndexEntry]:
    """Return the global indexes of `snapshot` on columns that files of columns change in their partition.

    `changed`: partitions with files of columns of older rows.

    Raises `Unsupported`: there are any, unless ``global-index.column-update-action`` says otherwise.
    """
    action = target.write.given.get(GLOBAL_INDEX_COLUMN_UPDATE_ACTION)
    index = None if snapshot is None else read_index_entries(target.metadata, snapshot)
    if index is None or action == IGNORE or not index["_GLOBAL_INDEX"].is_not_null().any():
        return []
    ids: dict[bytes, set[int]] = {}
    for partition, file in changed:
        ids.setdefault(partition, set()).update(_list_written_ids(target, file))
    kept = index.filter(index["_GLOBAL_INDEX"].is_not_null())
    columns = kept["_GLOBAL_INDEX"].struct
    extra = (each or [] for each in columns.field("_EXTRA_FIELD_IDS").to_list())
    indexed = zip(kept["_PARTITION"].to_list(), columns.field("_INDEX_FIELD_ID").to_list(), extra)
    stale = [not ids.get(partition, set()).isdisjoint((one, *others)) for partition, one, others in indexed]
    found = index_entries_of(kept.filter(pl.Series(stale, dtype=pl.Boolean)))
    if found and action == THROW_ERROR:
        raise Unsupported(
            "an update of a column with a global index, which would be wrong then,",
            where=target.where,
            hint=f"drop the index first, or set {GLOBAL_INDEX_COLUMN_UPDATE_ACTION} = drop_partition_index",
        )
    return found


# --- deletion vectors of tables without buckets ---


def _join_vectors(base: pl.DataFrame, index: pl.DataFrame | None) -> pl.DataFrame:
    """Return the live files, each with the index file that holds its deletion vector."""
    if index is None:
        return base.with_columns(pl.lit(None, pl.String).alias(VECTOR))
    vectors = list_vector_files(index).select(
        pl.col("data_file").alias("_FILE_NAME"), pl.col("index_file").alias(VECTOR)
    )
    return base.join(vectors, on="_FILE_NAME", how="left", maintain_order="left")


def _join_delta_vectors(
    target: WriteTarget, base: pl.DataFrame, delta: pl.DataFrame, index: pl.DataFrame
) -> pl.DataFrame:
    """Return the changes of files together with their vectors.

    A deleted file loses its vector, and a file that is added again with other metadata keeps it. If a file stays and
    gets another vector, the pair of file and old vector (or none) is deleted, and the pair of file and new vector is
    added. So the commit requires that both are unchanged.
    """
    vectors = list_vector_files(index)
    named = vectors.select(pl.col("data_file").alias("_FILE_NAME"), pl.col("index_file").alias(VECTOR))
    own = named.filter(named["_FILE_NAME"].is_in(delta["_FILE_NAME"].implode()))
    if own["_FILE_NAME"].is_duplicated().any():
        raise CommitConflict(f"{target.where}: a file is added or deleted with two deletion vectors; {ADVICE}")
    parts = [delta.join(_add_kept_vectors(base, delta, own), on="_FILE_NAME", how="left", maintain_order="left")]
    others = vectors.filter(~vectors["data_file"].is_in(delta["_FILE_NAME"].implode()))
    if others.height:
        parts.append(_find_changed_vectors(target, base, others))
    return pl.concat(parts, how="vertical")


def _add_kept_vectors(base: pl.DataFrame, delta: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """Return `own` and the vectors of the files that are deleted and added again."""
    again = delta.group_by("_FILE_NAME").agg(pl.col("_KIND").n_unique().alias(ADDS)).filter(pl.col(ADDS) > 1)
    kept = base.select("_FILE_NAME", VECTOR).drop_nulls(VECTOR).join(again, on="_FILE_NAME", how="semi")
    return pl.concat([own, kept.join(own, on="_FILE_NAME", how="anti")])


def _find_changed_vectors(target: WriteTarget, base: pl.DataFrame, vectors: pl.DataFrame) -> pl.DataFrame:
    """Return the entries for files that stay and whose vectors change.

    pypaimon's overwrites leave vectors of removed files in the table. Such vectors may be dropped, or written again
    beside others.
    """
    changes = vectors.select(
        pl.col("data_file").alias("_FILE_NAME"),
        pl.col("index_file").alias(CHANGED),
        pl.col("kind").alias(KIND),
        (pl.len().over("data_file") == 1).alias(ALONE),
    )
    gone = changes.filter(pl.col(ALONE) & (pl.col(KIND) == ADD)).join(base, on="_FILE_NAME", how="anti")
    if gone.height:
        raise CommitConflict(
            f"{target.where}: the file {gone['_FILE_NAME'][0]}, whose rows are to be deleted, is not there; {ADVICE}"
        )
    joined = changes.join(base, on="_FILE_NAME", how="inner", maintain_order="left")
    columns = base.columns
    changed = joined.with_columns(pl.col(KIND).alias("_KIND"), pl.col(CHANGED).alias(VECTOR)).select(columns)
    first = joined.filter(pl.col(ALONE) & (pl.col(KIND) == ADD)).with_columns(
        pl.lit(DELETE, pl.Int32).alias("_KIND"), pl.lit(None, pl.String).alias(VECTOR)
    )
    return pl.concat([changed, first.select(columns)])


def _place(target: WriteTarget, partition: bytes) -> str:
    values = target.partition_values(partition) if target.partition_fields else ()
    named = ", ".join(f"{field.name}={value!r}" for field, value in zip(target.partition_fields, values))
    return f"{target.where} (partition {named})" if named else target.where


BUCKET = ["_PARTITION", "_BUCKET", "_INDEX_TYPE"]
NAME = ["_INDEX_TYPE", "_FILE_NAME"]


def combine_index_files(previous: pl.DataFrame | None, changes: Sequence[IndexEntry], *, unaware: bool) -> pl.DataFrame:
    """Return the index files after these changes, columns of `decode_index_manifest`.

    Args:
        previous: the index files before, None if there are none.
        unaware: whether the table is without buckets (an append table with ``bucket = -1``).

    Raises:
        CommitConflict: an index file to delete is gone, a data file would get a second deletion vector, or a bucket has
            an index file that the commit does not name, since another commit wrote it meanwhile.
        InvalidArgument: two index files for one bucket (Java would keep only one of them).
    """
    changed = index_frame(changes)
    if previous is None:
        previous = changed.clear()
    is_new = changed["_KIND"] == ADD
    added, removed = changed.filter(is_new), changed.filter(~is_new)
    _check_single(added.filter(_is_per_bucket(added, unaware)))
    per_bucket = _is_per_bucket(previous, unaware)
    touched = changed.filter(_is_per_bucket(changed, unaware)).select(BUCKET)
    _check_replaced(previous.filter(per_bucket).join(touched, on=BUCKET, how="semi", maintain_order="left"), removed)
    buckets = previous.filter(per_bucket).join(touched, on=BUCKET, how="anti", maintain_order="left")
    named = previous.filter(~per_bucket).join(removed.select(NAME), on=NAME, how="anti", maintain_order="left")
    if unaware:
        _check_vectors(previous, named, added, removed)
    return pl.concat([buckets, named, added])


def _is_per_bucket(frame: pl.DataFrame, unaware: bool) -> pl.Series:
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
    files = list_vector_files(pl.concat([named, added]))["data_file"]
    if files.is_duplicated().any():
        raise CommitConflict(
            f"the data file {files.filter(files.is_duplicated())[0]} would have two deletion vectors; "
            "somebody else deleted rows of it: read again and retry"
        )


def list_vector_files(index: pl.DataFrame) -> pl.DataFrame:
    """Return a row per deletion vector: ``data_file``, ``index_file`` and ``kind`` of its entry."""
    return (
        index.filter(pl.col("_INDEX_TYPE") == DELETION_VECTORS_INDEX)
        .select(
            pl.col("_DELETIONS_VECTORS_RANGES").list.eval(pl.element().struct.field("f0")).alias("data_file"),
            pl.col("_FILE_NAME").alias("index_file"),
            pl.col("_KIND").alias("kind"),
        )
        .explode("data_file", empty_as_null=False)
        .drop_nulls("data_file")
    )
