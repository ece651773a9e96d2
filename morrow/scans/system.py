"""Scans of system tables by name: tables of metadata, and the table's rows with their hidden columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.time_travel import NOW, Travel
from morrow.scans.making import make_scan
from morrow.scans.packed_scan import ChangesScan, PackedScan
from morrow.scans.system_scan import Asked, MadeScan, RowScan, SystemScan

if TYPE_CHECKING:
    from morrow.engine.catalog.protocol import Catalog
    from morrow.engine.plan.metadata import TableMetadata
    from morrow.readers.system.base import SystemTable
    from morrow.readers.system.row_tables import RowTable
    from morrow.scans.changes import Mode

__all__ = ["SystemScan", "make_catalog_scan", "make_system_scan"]


def make_catalog_scan(
    catalog: Catalog,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
) -> SystemScan:
    """Plans a scan of a system table of the catalog; see `Catalog.system`."""
    from morrow.readers.system.catalog_tables import catalog_table

    table = catalog_table(name)
    asked = Asked.of(f"sys.{table.name}", table.columns, columns, filter, limit)
    return MadeScan(asked, lambda wanted: table.make(catalog).select(wanted))


def make_system_scan(
    metadata: TableMetadata,
    name: str,
    *,
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    travel: Travel = NOW,
    from_snapshot: int | str | None = None,
    to_snapshot: int | str | None = None,
    mode: Mode = "auto",
) -> SystemScan:
    """Plans a scan of a table's system table; see `Table.system`."""
    from morrow.readers.system.base import MetadataTable, TableState
    from morrow.readers.system.registry import system_table
    from morrow.readers.system.row_tables import RowTable

    table = system_table(name)
    metadata, travel = travel.of_branch(metadata)
    title = f"{metadata.where}${table.name}"
    if from_snapshot is not None or to_snapshot is not None:
        if not travel.is_latest:
            raise InvalidArgument("changes between snapshots are not read as of one: leave out as_of and its like")
        return _changes_scan(metadata, table, title, columns, filter, limit, from_snapshot, to_snapshot, mode)
    if isinstance(table, RowTable):
        return _row_scan(metadata, table, title, columns, filter, limit, travel)
    if not (travel.is_latest or table.travels):
        raise InvalidArgument(f"{title} tells of all snapshots at once: it is not read as of one")
    assert isinstance(table, MetadataTable)  # there is no third kind
    state = TableState(metadata, travel)
    asked = Asked.of(title, table.fields(state), columns, filter, limit)
    return MadeScan(asked, lambda wanted: table.rows(state, wanted))


def _row_scan(
    metadata: TableMetadata,
    table: RowTable,
    title: str,
    columns: Sequence[str] | None,
    filter: FilterLike | None,
    limit: int | None,
    travel: Travel,
) -> SystemScan:
    everything = make_scan(metadata, travel=travel).adapted(lambda request: table.request(request, metadata.where))
    schema, options = everything.request.schema, everything.request.options
    asked = Asked.of(title, table.fields_of(schema, options, metadata.where), columns, filter, limit)
    if table.packed:
        return PackedScan(asked, everything)
    return RowScan(asked, everything.asking(asked.columns, asked.filter, asked.limit))


def _changes_scan(
    metadata: TableMetadata,
    table: SystemTable,
    title: str,
    columns: Sequence[str] | None,
    filter: FilterLike | None,
    limit: int | None,
    start: int | str | None,
    end: int | str | None,
    mode: Mode,
) -> SystemScan:
    from morrow.readers.system.row_tables import RowTable
    from morrow.scans.changes import make_changes

    if not isinstance(table, RowTable) or not table.tells_kinds:
        raise InvalidArgument(f"{title} has no changes: from_snapshot and to_snapshot are for audit_log and binlog")
    schema = metadata.latest_schema()
    fields = table.fields_of(schema, metadata.options(schema), metadata.where)
    if fields[1:2] == (SEQUENCE_NUMBER_FIELD,):
        # Sequence numbers are in the files of a snapshot, not in a difference of two snapshots.
        fields = (fields[0], *fields[2:])
    asked = Asked.of(title, fields, columns, filter, limit)
    changes = partial(make_changes, metadata, start, end, mode=mode, filter=None)
    return ChangesScan(
        asked, lambda names: changes(columns=names, from_timestamp=None, to_timestamp=None), packed=table.packed
    )
