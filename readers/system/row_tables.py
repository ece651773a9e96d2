"""System tables made of the table's own rows: ``$audit_log``, ``$binlog``, ``$ro``, ``$row_tracking``.

Each is a scan of the table that reads more than usual (row kinds, row ids, deleted keys) or less (the top level only),
so columns, filters, limits and time travel reach the files as in any other scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.schema import ROW_ID_FIELD, ROWKIND, ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD, TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options import TableOptions
from morrow.engine.options.declared.merging import TABLE_READ_SEQUENCE_NUMBER_ENABLED
from morrow.engine.options.declared.table import ROW_TRACKING_ENABLED
from morrow.engine.options.writing import levels_of
from morrow.engine.plan.request import ScanRequest
from morrow.engine.values import replace
from morrow.readers.system.base import Fields, TableState
from morrow.readers.system.binlog import packed_field

"""The default of ``num-sorted-run.compaction-trigger``; ``num-levels`` is one more unless it is given."""

Adapt: TypeAlias = Callable[[ScanRequest, str], ScanRequest]
"""Replaces a scan of the table by the scan to read instead, given its location."""


@dataclass(frozen=True)
class RowTable:
    """A system table whose rows are read by a scan.

    `leading` and `trailing` are its columns before and after those of the table, by schema and options. `packed`: each
    column is an array, of the row's value, or of those before and after an update.
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
        return self.leading is _with_kinds

    def fields(self, state: TableState) -> Fields:
        return self.fields_of(state.schema, state.options, state.metadata.where)

    def fields_of(self, schema: TableSchema, options: TableOptions, where: str) -> Fields:
        """Returns the columns for this version of the schema.

        Raises:
            InvalidArgument: the table has a column with one of these names.
        """
        leading = self.leading(options)
        for field in (*leading, *self.trailing):
            if field.name in schema.by_name:
                raise InvalidArgument(
                    f"{where}: the table has a column {field.name!r} of its own, which ${self.name} would show twice"
                )
        return (*leading, *(self._shown(field) for field in schema.fields), *self.trailing)

    def request(self, request: ScanRequest, where: str) -> ScanRequest:
        """Returns the scan that gives these rows, from one of the table.

        Raises:
            Unsupported: the table does not support this system table.
        """
        extra = (*self.leading(request.options), *self.trailing)
        return replace(self.adapt(request, where), extra=extra)

    def _shown(self, field: DataField) -> DataField:
        return packed_field(field) if self.packed else field


def _with_kinds(options: TableOptions) -> Fields:
    numbered = options.given.get(TABLE_READ_SEQUENCE_NUMBER_ENABLED)
    return (ROWKIND_FIELD, SEQUENCE_NUMBER_FIELD) if numbered else (ROWKIND_FIELD,)


def _all_kinds(request: ScanRequest, where: str) -> ScanRequest:
    numbered = SEQUENCE_NUMBER_FIELD in _with_kinds(request.options)
    if numbered and not request.schema.primary_keys:
        raise Unsupported("sequence numbers of rows without a primary key", where=where)
    return replace(request, keeps_retractions=True)


def _top_level(request: ScanRequest, _: str) -> ScanRequest:
    if not request.schema.primary_keys:
        return request
    return replace(request, least_level=levels_of(request.options.given) - 1)


def _tracked(request: ScanRequest, where: str) -> ScanRequest:
    if not request.options.row_tracking:
        raise Unsupported(
            "row ids of a table that does not track them", where=where, hint=f"its option {ROW_TRACKING_ENABLED} is off"
        )
    return request


AUDIT_LOG = RowTable(
    "audit_log", f"rows with their kind in the column {ROWKIND}, deleted keys among them", _all_kinds, _with_kinds
)
BINLOG = RowTable(
    "binlog", "as audit_log, each column an array: an update has its value before and after", _all_kinds, _with_kinds,
    packed=True,
)  # fmt: skip
READ_OPTIMIZED = RowTable("ro", "rows of the top level only: fast, and as old as the last full compaction", _top_level)
ROW_TRACKING = RowTable(
    "row_tracking",
    "rows with their ids and the snapshot that wrote them",
    _tracked,
    trailing=(ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD),
)

ROW_TABLES = (AUDIT_LOG, BINLOG, READ_OPTIMIZED, ROW_TRACKING)
