"""pypaimon's updates and merges over Morrow's: they write files first, and their messages are committed later."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
import pyarrow as pa

from morrow.compat.pypaimon.predicates import Predicate, PredicateBuilder
from morrow.compat.pypaimon.scans import check_shard
from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import ROW_ID, TRACKED
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField
from morrow.engine.library_versions import import_array
from morrow.engine.names import POSITION, SOURCE, TARGET, col
from morrow.engine.plan.filter import NO_FILTER, Filter, parse_filter
from morrow.engine.plan.scan_plan import list_tracked_fields
from morrow.engine.plan.time_travel import parse_travel_options, resolve_main
from morrow.engine.redaction import suggest_name
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.execute import DEFAULT_BATCH_ROWS
from morrow.tables.writer import CommitMessage
from morrow.writers.append.row_level import RowChanges, delete_where
from morrow.writers.buckets.routers import restore_partitions
from morrow.writers.commit.conflicts import list_global_indexes
from morrow.writers.operations.append import make_upsert
from morrow.writers.operations.merge import (
    DELETE,
    INSERT,
    MATCHED,
    UNMATCHED,
    UPDATE,
    Clause,
    CompiledMerge,
    compile_merge,
    prepare_merge,
)
from morrow.writers.operations.partition_filters import find_matching_partitions
from morrow.writers.operations.update import build_row_filter, is_of_partitions, read_row_values, set_row_values
from morrow.writers.operations.write_session import check_rows
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from morrow.scans.splits import Split
    from morrow.tables.table import Table

ALL = "*"
_TEXT_OR_COLUMN = re.compile(r"('(?:[^']|'')*')|\b([st])\.(\w+)\b")
_SIDES = {"s": SOURCE, "t": TARGET}


@dataclass(frozen=True)
class SourceColumnRef:
    """A column of the source."""

    column: str


@dataclass(frozen=True)
class TargetColumnRef:
    """A column of the table."""

    column: str


@dataclass(frozen=True)
class LiteralValue:
    """A value for all rows."""

    value: Any


source_col, target_col, lit = SourceColumnRef, TargetColumnRef, LiteralValue


class WhenMatched:
    """A clause for rows of the table with a match: an update, or a deletion.

    Made by ``WhenMatched.update({...})`` and ``WhenMatched.delete()``. An update maps columns to ``source_col(...)``,
    ``target_col(...)``, ``lit(...)`` or values; ``"*"`` is all columns. `condition` is SQL about ``s.x`` and ``t.x``.
    """

    def __init__(self, action: str, *, update: Any = None, condition: str | None = None) -> None:
        if action not in (UPDATE, DELETE):
            raise InvalidArgument(f"the action of WhenMatched is 'update' or 'delete', not {action!r}")
        if (action == UPDATE) != (update is not None):
            raise InvalidArgument("WhenMatched: give the columns of an update, and none for a delete")
        self.values, self.condition, self.deletes = update, condition, action == DELETE
        vars(self).update(update=update, delete=self.deletes)  # an instance has values of these names

    @classmethod
    def update(cls, update: Any = ALL, condition: str | None = None) -> WhenMatched:
        """Return a clause that sets columns."""
        return cls(UPDATE, update=update, condition=condition)

    @classmethod
    def delete(cls, condition: str | None = None) -> WhenMatched:
        """Return a clause that deletes the row."""
        return cls(DELETE, condition=condition)


@dataclass(frozen=True)
class WhenNotMatched:
    """A clause for rows of the source without a match. `insert` and `condition` as in `WhenMatched`."""

    insert: Any
    condition: str | None = None


def compile_clauses(
    target: WriteTarget,
    source: Any,
    on: Sequence[str] | Mapping[str, str],
    when_matched: Sequence[WhenMatched],
    when_not_matched: Sequence[WhenNotMatched],
) -> CompiledMerge:
    """Return the merge that the clauses describe.

    Args:
        source: an Arrow table, a pandas frame, or a table of `morrow.compat.pypaimon`.
        on: columns that both sides have, or columns of the table with the source's columns.

    Raises:
        InvalidArgument: unreachable clauses, or an update of partition columns. Others as `compile_merge`.
    """
    pairs = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
    if not pairs:
        raise InvalidArgument("'on' must be non-empty")
    for clauses in (when_matched, when_not_matched):
        if any(clause.condition is None for clause in clauses[:-1]):
            raise InvalidArgument("only the last clause may omit its condition: those after it are unreachable")
    found = [
        *(_translate_matched(target, pairs, clause) for clause in when_matched),
        *(_translate_insert(target, pairs, clause) for clause in when_not_matched),
    ]
    keys = _list_conditions(pairs) if any(mine != theirs for mine, theirs in pairs.items()) else tuple(pairs)
    return compile_merge(target, _read_source(source, pairs), keys, found)


def _read_source(source: Any, pairs: Mapping[str, str]) -> Any:
    if not hasattr(source, "morrow"):
        return source
    table = source.morrow
    hidden = [field.name for field in TRACKED if field.name in pairs.values()]
    return table.scan([*table.schema.names, *hidden]).to_arrow()


def _list_conditions(pairs: Mapping[str, str]) -> str:
    return " AND ".join(f"{_quote(TARGET, mine)} = {_quote(SOURCE, theirs)}" for mine, theirs in pairs.items())


def _quote(side: str, column: str) -> str:
    escaped = column.replace('"', '""')
    return f'{side}."{escaped}"'


def _translate_matched(target: WriteTarget, pairs: Mapping[str, str], clause: WhenMatched) -> Clause:
    condition = _translate_condition(clause.condition)
    if clause.deletes:
        return Clause(MATCHED, DELETE, None, condition)
    values = dict(_translate_values(target, pairs, clause.values))
    moved = sorted(set(target.schema.partition_keys) & set(values))
    if moved:
        raise InvalidArgument(f"merge_into does not support updating partition columns {moved}")
    return Clause(MATCHED, UPDATE, values, condition)


def _translate_insert(target: WriteTarget, pairs: Mapping[str, str], clause: WhenNotMatched) -> Clause:
    if clause.condition is not None and any(side == "t" for _, side, _ in _TEXT_OR_COLUMN.findall(clause.condition)):
        raise InvalidArgument("the condition of WhenNotMatched must not name columns of the table (t.*)")
    values = dict(_translate_values(target, pairs, clause.insert, reads_target=False))
    keys = {mine: col(f"{SOURCE}.{theirs}") for mine, theirs in pairs.items() if mine in target.schema.by_name}
    return Clause(UNMATCHED, INSERT, {**keys, **values}, _translate_condition(clause.condition))


def _translate_values(
    target: WriteTarget, pairs: Mapping[str, str], given: Any, *, reads_target: bool = True
) -> Iterator[tuple[str, pl.Expr]]:
    if isinstance(given, str) and given == ALL:
        given = {name: SourceColumnRef(pairs.get(name, name)) for name in target.schema.by_name}
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgument(f"the columns to set are '*' or a mapping that is not empty, not {given!r}")
    for name, value in given.items():
        if name not in target.schema.by_name:
            raise ColumnNotFound(f"{target.where}: the SET spec names the unknown target column {name!r}")
        if callable(value):
            raise Unsupported("a function of rows as a value of merge_into", where=target.where, hint="use an update")
        if isinstance(value, str) and value[:2] in ("s.", "t."):
            value = SourceColumnRef(value[2:]) if value[0] == "s" else TargetColumnRef(value[2:])
        if isinstance(value, TargetColumnRef):
            if not reads_target:
                raise InvalidArgument(f"an insert must not name columns of the table, but {value.column!r} is one")
            if value.column != name:
                yield name, col(f"{TARGET}.{value.column}")
        elif isinstance(value, SourceColumnRef):
            yield name, col(f"{SOURCE}.{value.column}")
        else:
            literal = value.value if isinstance(value, LiteralValue) else value
            kind = target.schema.by_name[name].type.arrow()
            yield name, pl.lit(import_array(pa.array([literal], kind))).first()


def _translate_condition(condition: str | None) -> str | None:
    """Return the SQL with Morrow's names of both sides; texts in it stay."""
    if condition is None:
        return None
    return _TEXT_OR_COLUMN.sub(lambda found: found[1] or _quote(_SIDES[found[2]], found[3]), condition)


Assignment = Any
"""A literal, an Arrow array of the new values, or a function of an Arrow table that returns one."""


class TableUpdate:
    """An updater of tables with data evolution: its methods write files, and return messages to commit."""

    def __init__(self, table: Table, commit_user: str | None = None) -> None:
        self._table, self._commit_user = table, commit_user
        self._columns: Sequence[str] | None = None
        self._read: Sequence[str] | None = None

    def with_update_type(self, update_cols: Sequence[str]) -> TableUpdate:
        """Choose the columns to update."""
        names = self._table.schema.names
        for name in update_cols:
            if name not in names:
                raise InvalidArgument(f"Column {name} is not in table schema; {suggest_name(name, names)}")
        self._columns = None if len(update_cols) == len(names) else tuple(update_cols)
        return self

    def with_read_projection(self, projection: Sequence[str]) -> TableUpdate:
        """Choose the columns that a shard reads."""
        names = [*self._table.schema.names, ROW_ID]
        for name in projection:
            if name not in names:
                raise InvalidArgument(f"Column {name} is not in table schema; {suggest_name(name, names)}")
        self._read = tuple(projection)
        return self

    def new_shard_updator(self, shard_num: int, total_shard_count: int) -> ShardTableUpdator:
        """Return an updater of all rows of the `shard_num`-th of `total_shard_count` parts of the table.

        Raises:
            InvalidArgument: a number that is not below the count.
        """
        check_shard(shard_num, total_shard_count)
        target, snapshot = self._open()
        self._check_evolving(target, "new_shard_updator")
        read = self._read or tuple(target.schema.by_name)
        scan = self._table.scan(list(dict.fromkeys((*read, ROW_ID))), snapshot=snapshot.id if snapshot else None)
        parts = scan.file_splits()[shard_num::total_shard_count]
        return ShardTableUpdator(target, snapshot, parts, self._columns or tuple(target.schema.by_name), read)

    def new_predicate_builder(self) -> PredicateBuilder:
        """Return a builder of predicates on the table's columns."""
        return PredicateBuilder(list(self._table.schema))

    def update_by_arrow_with_row_id(self, table: pa.Table, commit_identifier: int = 0) -> list[CommitMessage]:  # noqa: ARG002
        """Set the chosen columns, or all that the rows have, of rows by ``_ROW_ID``."""
        target, snapshot = self._open()
        chosen = [name for name in table.column_names if name != ROW_ID] if self._columns is None else self._columns
        rows = read_row_values(target, table.select([name for name in (ROW_ID, *chosen) if name in table.column_names]))
        if not rows.height:
            return []
        _check_row_ids(rows[ROW_ID], snapshot)
        return _plan(set_row_values(target, snapshot, rows), snapshot)

    def upsert_by_arrow_with_key(
        self,
        table: pa.Table,
        upsert_keys: Sequence[str],
        commit_identifier: int = 0,  # noqa: ARG002
    ) -> list[CommitMessage]:
        """Update the rows of the same partition that are equal in these columns, and append the others."""
        target, snapshot = self._open()
        self._check_evolving(target, "upsert_by_arrow_with_key")
        if not upsert_keys or not table.num_rows:
            raise InvalidArgument("upsert_keys must not be empty" if not upsert_keys else "data must not be empty")
        key = tuple(dict.fromkeys((*target.schema.partition_keys, *upsert_keys)))
        for name in key:
            for names, where in ((target.schema.by_name, "table schema"), (table.column_names, "input data")):
                if name not in names:
                    kind = "partition key" if name in target.schema.partition_keys else "upsert key"
                    raise ColumnNotFound(f"the column {name!r} of the {kind} is not in {where}")
        merge = make_upsert(target, table, key, self._columns)
        compiled = compile_merge(target, merge.source, merge.on, merge.clauses)
        return _plan(prepare_merge(compiled, snapshot), snapshot)

    def upsert_by_key(self, rows: Any, upsert_keys: Sequence[str], commit_identifier: int = 0) -> list[CommitMessage]:
        """Upsert rows: dicts, or rows whose values are in the order of the columns."""
        several = rows if isinstance(rows, (list, tuple)) else [rows]
        named = [name_values(row, self._table.schema.names) for row in several]
        if not named:
            raise InvalidArgument("rows must not be empty")
        data = pa.Table.from_pylist(named, self._table.schema)
        return self.upsert_by_arrow_with_key(data, upsert_keys, commit_identifier)

    def update_by_predicate(
        self,
        predicate: Predicate | None,
        assignments: Mapping[str, Assignment],
        commit_identifier: Any = None,
        read_columns: Sequence[str] | None = None,
    ) -> list[CommitMessage]:
        """Set columns of the rows for which the predicate is true (None: all)."""
        if not isinstance(commit_identifier, int) and commit_identifier is not None:
            read_columns = commit_identifier
        target, snapshot = self._open()
        self._check_evolving(target, "update_by_predicate")
        if not assignments:
            raise InvalidArgument("assignments must not be empty.")
        computed = any(map(callable, assignments.values()))
        if computed and any(isinstance(value, (pa.Array, pa.ChunkedArray)) for value in assignments.values()):
            raise InvalidArgument("Callable assignments cannot be combined with Arrow array assignments.")
        if computed != bool(read_columns):
            raise InvalidArgument(
                "Callable assignments require read_columns, and read_columns requires a callable assignment."
            )
        for name in (*assignments, *(read_columns or ())):
            if name not in target.schema.by_name:
                raise ColumnNotFound(f"Column {name} is not in table schema.")
        for name in assignments:
            if name in target.schema.partition_keys:
                raise InvalidArgument(f"update_by_predicate does not support updating partition column '{name}'.")
        fields = tuple(target.schema.by_name[name] for name in assignments)
        done = 0
        with RowChanges(target, snapshot) as changes:
            for found in changes.matching(_to_filter(target, predicate), tuple(target.schema.by_name)):
                old = to_arrow_table(found.rows.drop(POSITION), (*target.schema.fields, *TRACKED))
                seen = old.select([*(read_columns or target.schema.by_name), ROW_ID])
                values = [_assign(assignments[field.name], field, seen, done) for field in fields]
                new = old.select(list(target.schema.by_name))
                for field, value in zip(fields, values):
                    new = new.set_column(new.column_names.index(field.name), field.name, value)
                changes.replace(found, check_rows(target, new), tuple(assignments))
                done += found.rows.height
            lengths = [len(each) for each in assignments.values() if isinstance(each, (pa.Array, pa.ChunkedArray))]
            if any(length != done for length in lengths):
                raise InvalidArgument(f"Assignment array length must match matched row count: {lengths[0]} != {done}.")
            return _plan(changes.messages(), snapshot)

    def delete_by_predicate(self, predicate: Predicate | None, commit_identifier: int = 0) -> list[CommitMessage]:  # noqa: ARG002
        """Delete the rows for which the predicate is true (None: all).

        A predicate on partition columns alone drops all files of the partitions, and needs no deletion vectors.
        """
        target, snapshot = self._open()
        self._check_evolving(target, "delete")
        filter = _to_filter(target, predicate)
        if snapshot is None or not is_of_partitions(target, filter):
            self._check_deletable(target)
            return _plan(delete_where(target, snapshot, filter), snapshot)
        return _plan(_drop_partitions(target, snapshot, filter), snapshot)

    def delete_by_row_id(self, row_ids: Sequence[int], commit_identifier: int = 0) -> list[CommitMessage]:  # noqa: ARG002
        """Delete rows by ``_ROW_ID``."""
        target, snapshot = self._open()
        self._check_evolving(target, "delete")
        self._check_deletable(target)
        if not row_ids:
            return []
        if any(row_id is None for row_id in row_ids):
            raise InvalidArgument(f"{ROW_ID} value must not be null.")
        wanted = pl.Series(ROW_ID, row_ids, pl.Int64).unique().sort()
        _check_row_ids(wanted, snapshot)
        with RowChanges(target, snapshot) as changes:
            for old in changes.matching(build_row_filter(wanted.to_frame()), tuple(target.schema.by_name)[:1]):
                changes.delete(old.where(pl.col(ROW_ID).is_in(wanted.implode())))
            return _plan(changes.messages(), snapshot)

    def merge_into(
        self,
        source: Any,
        *,
        on: Sequence[str] | Mapping[str, str],
        when_matched: Sequence[WhenMatched] = (),
        when_not_matched: Sequence[WhenNotMatched] = (),
        commit_identifier: int = 0,  # noqa: ARG002
    ) -> list[CommitMessage]:
        """Merge the rows of `source` into the table. Arguments and errors as for `compile_clauses`."""
        target, snapshot = self._open()
        self._check_evolving(target, "merge_into")
        merge = compile_clauses(target, source, on, when_matched, when_not_matched)
        return _plan(prepare_merge(merge, snapshot), snapshot)

    def _open(self) -> tuple[WriteTarget, Snapshot | None]:
        """Return the table, and the snapshot that its options of time travel select."""
        target = WriteTarget.of(self._table._metadata, self._commit_user)
        return target, resolve_main(target.metadata, target.options, parse_travel_options(target.options.travel))

    def _check_deletable(self, target: WriteTarget) -> None:
        if not target.write.deletion_vectors:
            raise InvalidArgument("deleting single rows requires 'deletion-vectors.enabled' = 'true'.")

    def _check_evolving(self, target: WriteTarget, what: str) -> None:
        if not target.options.data_evolution:
            raise InvalidArgument(f"{what} requires 'data-evolution.enabled' = 'true'.")

    def __getattr__(self, name: str) -> Callable[..., NoReturn]:
        if name not in UPDATES:
            raise AttributeError(f"an update has no attribute {name!r}")

        def refuse(*_: Any, **__: Any) -> NoReturn:
            raise Unsupported(f"pypaimon's {name}", where=self._table.path, hint=UPDATES[name])

        return refuse


class ShardTableUpdator:
    """An updater of all rows of a part of a table, in their order."""

    def __init__(
        self,
        target: WriteTarget,
        snapshot: Snapshot | None,
        parts: Sequence[Split],
        columns: Sequence[str],
        read: Sequence[str],
    ) -> None:
        self._target, self._snapshot, self._parts = target, snapshot, parts
        self._columns, self._read_columns = columns, read
        self._ids: list[pl.Series] = []
        self._batches: list[pa.RecordBatch] = []

    def arrow_reader(self) -> pa.RecordBatchReader:
        """Return the rows of the part, in the columns of the read projection. A later reader replaces earlier ones."""
        fields = [field for field in self._parts[0].fields if field.name in self._read_columns] if self._parts else ()
        schema = pa.schema([pa.field(field.name, field.type.arrow(), field.type.nullable) for field in fields])
        return pa.RecordBatchReader.from_batches(schema, self._read(schema))

    def _read(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        ids = self._ids = []  # an earlier reader may go on, and counts no longer
        for part in self._parts:
            for batch in _join_batches(part.to_batches()):
                ids.append(import_array(batch.column(ROW_ID)))
                yield batch.select(list(schema.names)).cast(schema)

    def update_by_arrow_batch(self, data: pa.RecordBatch) -> None:
        """Set the columns of the next rows, in the order of `arrow_reader`."""
        self._batches.append(data)

    def prepare_commit(self) -> list[CommitMessage]:
        """Write the files of the updated columns, and return their messages.

        Raises:
            InvalidArgument: fewer or more rows than the reader returned.
        """
        if not self._batches:
            return []
        rows = pa.Table.from_batches(self._batches).select(list(self._columns))
        ids = pl.concat(self._ids) if self._ids else pl.Series(dtype=pl.Int64)
        if len(ids) != len(rows):
            raise InvalidArgument(f"{self._target.where}: {len(rows)} updated rows, of {len(ids)} rows that were read")
        given = read_row_values(self._target, rows.append_column(ROW_ID, ids.to_arrow()))
        return _plan(set_row_values(self._target, self._snapshot, given), self._snapshot)


def _join_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of `DEFAULT_BATCH_ROWS` or more, except the last: some reads yield many."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= DEFAULT_BATCH_ROWS:
            yield pa.concat_batches(held)
            held = []
    if held:
        yield pa.concat_batches(held)


def _check_row_ids(ids: pl.Series, snapshot: Snapshot | None) -> None:
    """Raise `InvalidArgument` for an id, of ascending ones, that the table has not given to a row."""
    known = snapshot.next_row_id or 0 if snapshot is not None else 0
    for row_id in (ids[0], ids[-1]):
        if not 0 <= row_id < known:
            raise InvalidArgument(f"Row ID {row_id} does not belong to any valid range: 0 to {known - 1}")


def name_values(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return a row, a mapping or values in the order of the columns, as a dict."""
    return dict(row) if isinstance(row, Mapping) else dict(zip(names, getattr(row, "values", row)))


def _plan(messages: Sequence[CommitMessage], snapshot: Snapshot | None) -> list[CommitMessage]:
    """Return the messages as planned on a snapshot, so that their commit detects conflicting later commits."""
    return [replace(message, planned_on=None if snapshot is None else snapshot.id) for message in messages]


def _to_filter(target: WriteTarget, predicate: Predicate | None) -> Filter:
    fields = (*target.schema.fields, *list_tracked_fields(target.schema, target.options))
    return NO_FILTER if predicate is None else parse_filter(predicate.to_polars(), fields)


def _assign(value: Assignment, field: DataField, rows: pa.Table, start: int) -> pa.ChunkedArray | pa.Array:
    """Return the new values of a column for `rows`; `start` rows came before them."""
    kind = field.type.arrow()
    if callable(value):
        value = value(rows)
        if not isinstance(value, (pa.Array, pa.ChunkedArray)):
            raise InvalidArgument(
                f"Callable assignment for {field.name} must return a pyarrow.Array or pyarrow.ChunkedArray."
            )
        if len(value) != rows.num_rows:
            raise InvalidArgument(
                f"Assignment array length must match matched row count: {len(value)} != {rows.num_rows}."
            )
    elif isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = value.slice(start, rows.num_rows)
        value = pa.concat_arrays([*(value.chunks if isinstance(value, pa.ChunkedArray) else [value])])
        if len(value) < rows.num_rows:
            value = pa.concat_arrays([value, pa.nulls(rows.num_rows - len(value), value.type)])  # refused later
    else:
        literal = value.as_py() if isinstance(value, pa.Scalar) else value
        return pa.array([literal] * rows.num_rows, kind)
    return value.cast(kind)


def _drop_partitions(target: WriteTarget, snapshot: Snapshot, filter: Filter) -> list[CommitMessage]:
    """Return messages that remove all files of the partitions for which a filter on partition columns is true."""
    states = restore_partitions(target, snapshot, find_matching_partitions(target, snapshot, filter))
    return [
        CommitMessage(
            partition=place.partition,
            bucket=place.bucket,
            total_buckets=state.total_buckets or target.options.bucket,
            deleted_files=state.files,
            deleted_index_files=(*state.index_files, *list_global_indexes(target, snapshot, place.partition)),
        )
        for place, state in states.items()
        if state.files
    ]


UPDATES = {
    "update_by_arrow_batches_with_row_id": "use table.morrow.update_rows(rows)",
    "new_update_by_row_id": "use table.morrow.update_rows(rows)",
}
"""The methods of pypaimon's TableUpdate that Morrow lacks, and what does the same."""
