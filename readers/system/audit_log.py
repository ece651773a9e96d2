"""System tables made of the table's own rows: ``$audit_log``, ``$binlog``, ``$ro``, ``$row_tracking``.

Each is a scan of the table that reads more than usual (row kinds, row ids, deleted keys) or less (the top level only).
Columns, filters, limits and time travel reach the files as in any other scan.

``$binlog`` has each column of a row as an array, so that an update has room for its values before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.row_kinds import NAMES, UPDATE_AFTER, UPDATE_BEFORE
from morrow.engine.format.schema import ROWKIND, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD, TRACKED, TableSchema
from morrow.engine.format.types import ArrayType, DataField, to_arrow_schema
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.merging import TABLE_READ_SEQUENCE_NUMBER_ENABLED
from morrow.engine.options.declared.table import ROW_TRACKING_ENABLED
from morrow.engine.options.write_options import count_levels
from morrow.engine.plan.scan_plan import ScanRequest
from morrow.engine.structs import replace
from morrow.readers.casts.dtypes import cast_layout
from morrow.readers.system.base import Fields, TableState

Adapt: TypeAlias = Callable[[ScanRequest, str], ScanRequest]
"""Returns the scan to read instead of a scan of the table; the second argument is the table's location."""


@dataclass(frozen=True)
class RowTable:
    """A system table whose rows are read by a scan.

    `leading` and `trailing` are its columns before and after the table's columns, by schema and options. `packed`: each
    column is an array of the row's value, or of the values before and after an update.
    """

    name: str
    description: str
    adapt: Adapt
    leading: Callable[[TableOptions], Fields] = lambda _options: ()
    trailing: Fields = ()
    packed: bool = False
    travels: bool = True

    @property
    def tells_kinds(self) -> bool:
        """Whether each row has a row kind: such tables can list changes too."""
        return self.leading is _list_kinds

    def fields(self, state: TableState) -> Fields:
        return self.fields_of(state.schema, state.options, state.metadata.where)

    def fields_of(self, schema: TableSchema, options: TableOptions, where: str) -> Fields:
        """Return the columns for this version of the schema.

        Raises `InvalidArgument`: the table has a column with one of these names.
        """
        leading = self.leading(options)
        for field in (*leading, *self.trailing):
            if field.name in schema.by_name:
                raise InvalidArgument(
                    f"{where}: the table has a column {field.name!r} of its own, which ${self.name} would show twice"
                )
        return (*leading, *(self._pack(field) for field in schema.fields), *self.trailing)

    def request(self, request: ScanRequest, where: str) -> ScanRequest:
        """Return the scan that reads these rows, given a scan of the table.

        Raises `Unsupported`: the table does not support this system table.
        """
        extra = (*self.leading(request.options), *self.trailing)
        return replace(self.adapt(request, where), extra=extra)

    def _pack(self, field: DataField) -> DataField:
        return pack_field(field) if self.packed else field


def _list_kinds(options: TableOptions) -> Fields:
    numbered = options.given.get(TABLE_READ_SEQUENCE_NUMBER_ENABLED)
    return (ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD) if numbered else (ROWKIND_FIELD,)


def _keep_kinds(request: ScanRequest, where: str) -> ScanRequest:
    numbered = SEQUENCE_NUMBER_FIELD in _list_kinds(request.options)
    if numbered and not request.schema.primary_keys:
        raise Unsupported("sequence numbers of rows without a primary key", where=where)
    return replace(request, keeps_retractions=True)


def _select_top_level(request: ScanRequest, _: str) -> ScanRequest:
    if not request.schema.primary_keys:
        return request
    return replace(request, least_level=count_levels(request.options.given) - 1)


def _return_request(request: ScanRequest, where: str) -> ScanRequest:
    if not request.options.row_tracking:
        raise Unsupported(
            "row ids of a table that does not track them", where=where, hint=f"its option {ROW_TRACKING_ENABLED} is off"
        )
    return request


AUDIT_LOG = RowTable(
    "audit_log", f"rows with their kind in the column {ROWKIND}, deleted keys among them", _keep_kinds, _list_kinds
)
BINLOG = RowTable(
    "binlog", "as audit_log, each column an array: an update has its value before and after", _keep_kinds, _list_kinds,
    packed=True,
)  # fmt: skip
READ_OPTIMIZED = RowTable(
    "ro", "rows of the top level only: fast, and as old as the last full compaction", _select_top_level
)
ROW_TRACKING = RowTable(
    "row_tracking",
    "rows with their ids and the snapshot that wrote them",
    _return_request,
    trailing=TRACKED,
)

ROW_TABLES = (AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING)

PLAIN = (ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD)
"""Columns that are not packed."""


def pack_field(field: DataField) -> DataField:
    """Return the column as an array, whose elements may be null."""
    return field if field in PLAIN else replace(field, type=ArrayType(element=field.type.with_nullable(True)))


def pack_rows(rows: pa.RecordBatch, fields: Sequence[DataField], *, pairs: bool = False) -> pa.RecordBatch:
    """Pack the values of rows into arrays.

    Args:
        rows: columns by name, with their plain values; with `pairs` also ``rowkind``.
        fields: the columns of the result, as `pack_field` makes them.
        pairs: whether a -U and the +U after it become one row: its arrays hold both values, its kind is +U.
    """
    ends = _find_last_of_each(rows.column(ROWKIND)) if pairs else np.arange(len(rows))
    offsets = pa.array(np.append(0, ends + 1), pa.int32())
    columns = [
        rows.column(field.name).take(pa.array(ends)) if field in PLAIN else _make_arrays(rows, field, offsets)
        for field in fields
    ]
    return pa.RecordBatch.from_arrays(columns, schema=to_arrow_schema(tuple(fields)))


def align_pairs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows, without a batch that ends between a -U and its +U."""
    held: pa.RecordBatch | None = None
    for each in batches:
        batch = each if held is None else pa.Table.from_batches([held, each]).combine_chunks().to_batches()[0]
        held = None
        if len(batch) and batch.column(ROWKIND)[-1].as_py() == NAMES[UPDATE_BEFORE]:
            held, batch = batch.slice(len(batch) - 1), batch.slice(0, len(batch) - 1)
        yield batch
    if held is not None:
        yield held


def _find_last_of_each(kinds: pa.Array) -> npt.NDArray[np.integer]:
    """Return the numbers of the rows that end a packed row."""
    before, after = (
        pc.equal(kinds, NAMES[kind]).to_numpy(zero_copy_only=False) for kind in (UPDATE_BEFORE, UPDATE_AFTER)
    )
    return np.flatnonzero(~(before & np.append(after[1:], False)))


def _make_arrays(rows: pa.RecordBatch, field: DataField, offsets: pa.Array) -> pa.Array:
    kind = field.type.arrow()
    return pa.ListArray.from_arrays(offsets, cast_layout(rows.column(field.name), kind.value_type), type=kind)
