"""Appends and upserts of rows, and addition of their new columns to the table.

Columns of the rows that the table lacks can be added to the table before the rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl
import pyarrow as pa

from morrow.engine.arguments import check_texts
from morrow.engine.errors import AlreadyExists, ColumnNotFound, CommitConflict, InvalidArgument
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.library_versions import export_frame, import_array
from morrow.engine.names import SOURCE, col, cols
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.schema.columns import read_columns
from morrow.engine.schema.evolution import commit_changes
from morrow.engine.schema.schema_changes import AddColumn
from morrow.engine.structs import replace
from morrow.writers.buckets.modes import BucketMode, determine_bucket_mode
from morrow.writers.commit.commit_lock import retry_on_conflict
from morrow.writers.commit.messages import Operation, record_operation
from morrow.writers.commit.premise import Premise
from morrow.writers.ingest.conversion import NULL, Missing
from morrow.writers.ingest.sources import Piece, Source, open_source
from morrow.writers.ingest.validation import Kinds
from morrow.writers.operations.write_session import OvertakenError, WriteSession
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.writers.operations.merge import Merge


@record_operation(Operation.WRITE)
def append_rows(
    target: WriteTarget,
    data: object,
    kinds: Kinds = None,
    *,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Write rows in one commit; in keyed tables the merge engine combines them with rows of the same key.

    Raises: as `WriteSession.write`, `WriteSession.commit` and `add_missing_columns`.
    """
    target, data = add_missing_columns(target, data, kinds, schema_mode)
    begun = iter([target.begun])  # a retry reads the newest snapshot again
    target = replace(target, begun=None)

    def once() -> Snapshot | None:
        return _write_rows(target, next(begun, None), data, kinds, missing)

    if not isinstance(data, READ_AGAIN) or isinstance(kinds, Iterator):  # streams can only be read once
        return once()
    return retry_on_conflict(target, once, after=_find_retried_conflicts(target))


@record_operation(Operation.WRITE)
def append_parts(
    target: WriteTarget,
    parts: Sequence[Callable[[], object]],
    kinds: Kinds = None,
    *,
    is_stream: bool,
    premise: Premise | None = None,
) -> Snapshot | None:
    """Write the rows of several sources in one commit, each with columns of its own; missing ones are null.

    Args:
        parts: functions that open the sources, one after the other.
        is_stream: whether a source can be opened only once.
        premise: the condition of the commit, which the caller meets again if it fails.

    Raises: as `append_rows`.
    """
    begun = iter([target.begun])
    target = replace(target, begun=None)

    def once() -> Snapshot | None:
        session = WriteSession(target, base=next(begun, None))
        try:
            for open_part in parts:
                session.write(open_part(), kinds)
            return session.commit(premise=premise)
        finally:
            session.abort()

    return (
        once()
        if is_stream or premise is not None
        else retry_on_conflict(target, once, after=_find_retried_conflicts(target))
    )


def _find_retried_conflicts(target: WriteTarget) -> type[CommitConflict]:
    """Return the conflicts that can be resolved by writing the rows again.

    These are all conflicts if buckets depend on earlier commits: two writers may put a key into two buckets or
    partitions, and the later commit is refused. In other tables, the commit resolves conflicts itself if possible.
    """
    depends = determine_bucket_mode(target) in (BucketMode.DYNAMIC, BucketMode.CROSS_PARTITION)
    return CommitConflict if depends else OvertakenError


def _write_rows(
    target: WriteTarget,
    begun: Snapshot | None,
    data: object,
    kinds: Kinds,
    missing: Missing,
) -> Snapshot | None:
    session = WriteSession(target, base=begun)
    try:
        session.write(data, kinds, missing)
        return session.commit()
    finally:
        session.abort()


def upsert_rows(
    target: WriteTarget,
    data: object,
    kinds: Kinds = None,
    *,
    key: str | Sequence[str] | None = None,
    missing: Missing = NULL,
    schema_mode: SchemaMode = None,
) -> Snapshot | None:
    """Append rows to a keyed table, see `append_rows`; or update or insert them by the columns `key`.

    Raises:
        InvalidArgument: the table is without a primary key, or has one besides `key`. Others: as `append_rows`.
    """
    if not target.keyed and key is not None:
        return _upsert_by_columns(target, data, kinds, check_texts(key, "upsert: key"), schema_mode)
    if not target.keyed:
        hint = "give key=[...], or use Table.append or Table.merge"
        raise InvalidArgument(f"{target.where}: it has no primary key to upsert by; {hint}")
    if key is not None and {*check_texts(key, "upsert: key")} != {*target.schema.primary_keys}:
        raise InvalidArgument(f"{target.where}: rows are upserted by the primary key; leave out key={key!r}")
    return append_rows(target, data, kinds, missing=missing, schema_mode=schema_mode)


def _upsert_by_columns(
    target: WriteTarget, data: object, kinds: Kinds, key: Sequence[str], schema_mode: SchemaMode
) -> Snapshot | None:
    """Update the rows that are equal in these columns, and insert the others; of equal rows of `data`, the last."""
    if kinds is not None:
        raise InvalidArgument(f"{target.where}: upsert: kinds go with a primary key only; use Table.merge")
    target, data = add_missing_columns(target, data, kinds, schema_mode)
    return make_upsert(target, data, key).execute()


def make_upsert(target: WriteTarget, data: object, key: Sequence[str], set: Sequence[str] | None = None) -> Merge:
    """Return the merge that upserts rows by columns; `set` are the columns that matched rows get, None: all."""
    from morrow.writers.operations.merge import Merge, read_source

    source = read_source(target, data)
    for name in key:
        target.schema.column(name)
        if name not in source.column_names:
            raise ColumnNotFound(f"{target.where}: upsert by {name!r}: the rows have {', '.join(source.column_names)}")
    numbers = pl.DataFrame({str(i): import_array(source.column(name)) for i, name in enumerate(key)})
    keys = cols(numbers.columns)
    alone = pl.any_horizontal(each.is_null() for each in keys) | pl.struct(keys).is_last_distinct()
    last = numbers.with_row_index("row").filter(alone)["row"]
    merge = Merge(target, source.take(last.to_arrow()), key)
    changed = [name for name in (source.column_names if set is None else set) if name not in key]
    if changed:
        merge = merge.when_matched_update({name: col(f"{SOURCE}.{name}") for name in changed})
    return merge.when_not_matched_insert()


SchemaMode: TypeAlias = Literal["merge"] | None
"""Handling of columns that the table lacks: None refuses the write; ``merge`` adds the columns."""

READ_AGAIN = (pl.DataFrame, pa.Table, Mapping, list)
"""Data that can be read more than once."""


def add_missing_columns(
    target: WriteTarget, data: object, kinds: Kinds, mode: SchemaMode
) -> tuple[WriteTarget, object]:
    """Add the columns that the table lacks, nullable and last; return the target with them, and the rows to write.

    If the write fails afterwards, the columns stay, with nulls in all rows. Empty data does not add columns.

    Raises:
        InvalidArgument: an unknown mode, a column type that Paimon lacks, or a column with unknown type (only nulls).
        Unsupported, CommitConflict: as changes of the schema.
    """
    if mode is None:
        return target, data
    if mode != "merge":
        raise InvalidArgument(f"schema_mode is None or 'merge', not {mode!r}")
    source = open_source(data, target.schema.fields)
    new = [name for name in source.names if name not in target.schema.by_name and name != kinds]
    first = next(source.pieces, None)
    if new and first is not None:
        add_columns(target.metadata, _read_schema(first, new))
        target = WriteTarget.of(target.metadata, target.commit_user, target.properties)
    if first is None:
        return target, Source(tuple(name for name in source.names if name not in new), iter(()))
    return target, data if isinstance(data, READ_AGAIN) else Source(source.names, chain((first,), source.pieces))


def add_columns(metadata: TableMetadata, columns: pa.Schema) -> None:
    """Add columns to a table, nullable and last. Raises as `add_missing_columns`."""
    _check_types(columns)
    made = read_columns(columns).columns
    _add(metadata, [AddColumn((each.name,), each.type.with_nullable(True), each.comment) for each in made])


def _read_schema(piece: Piece, names: list[str]) -> pa.Schema:
    whole = piece.schema if isinstance(piece, pa.Table) else export_frame(piece.head(0)).schema
    return pa.schema([whole.field(name) for name in names])


def _check_types(schema: pa.Schema) -> None:
    empty = [field.name for field in schema if pa.types.is_null(field.type)]
    if empty:
        raise InvalidArgument(f"column {empty[0]!r} has no value that tells its type; leave it out, or give it a type")


def _add(metadata: TableMetadata, changes: list[AddColumn]) -> None:
    try:
        commit_changes(metadata, changes)
    except AlreadyExists:  # another process has added some meanwhile; values that do not fit are refused when written
        for change in changes:
            with suppress(AlreadyExists):
                commit_changes(metadata, [change])
