"""``morrow system``: the system tables of a table, and those of a warehouse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from morrow.cli.arguments import Format
from morrow.cli.opening import open_catalog
from morrow.cli.output import TABLE_ROWS, TABLES, write_rows
from morrow.cli.progress import working
from morrow.cli.scans import system_scan_of
from morrow.engine.catalog.names import object_name
from morrow.engine.plan.time_travel import TravelArguments
from morrow.readers.system.catalog_tables import CATALOG_TABLES
from morrow.readers.system.registry import SYSTEM_TABLES
from morrow.scans.system import SystemScan

BATCH_ROWS = 65_536
NAMES = pa.schema([("name", pa.string()), ("rows", pa.string())])


def system(
    path: str,
    name: str | None,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    form: Format,
    output: Path | None,
) -> None:
    """Write the rows of a system table; without a name, which system tables there are."""
    if name is None and object_name(path).system is None:
        _names(form, output)
        return
    cap = TABLE_ROWS if form in TABLES and limit is None else None
    # One row more than is shown tells whether there are more, and reading stops there.
    most = limit if cap is None else cap + 1
    with working("planning"):
        scan = _scan(path, name, at, columns, where, most)
        scan.prepare()
    write_rows(scan.schema, scan.to_batches(BATCH_ROWS), form, output, cap)


def _scan(
    path: str,
    name: str | None,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
) -> SystemScan:
    if name is not None and name.lower() in CATALOG_TABLES:
        return open_catalog(path).system(name, columns, where, limit, **at)
    return system_scan_of(path, name, at, columns, where, limit)


def _names(form: Format, output: Path | None) -> None:
    rows = [{"name": table.name, "rows": table.description} for table in SYSTEM_TABLES.values()]
    rows += [{"name": table.name, "rows": table.description} for table in CATALOG_TABLES.values()]
    write_rows(NAMES, pa.Table.from_pylist(rows, NAMES).to_batches(), form, output)
