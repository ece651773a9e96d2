"""The system tables of one table, by name; `system_table` finds one by a user's spelling."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument, TableNotFound
from morrow.readers.system.base import SystemTable, nearest
from morrow.readers.system.files import FILE_KEY_RANGES, FILES
from morrow.readers.system.indexes import TABLE_INDEXES
from morrow.readers.system.manifests import MANIFESTS
from morrow.readers.system.partitions import BUCKETS, PARTITIONS
from morrow.readers.system.references import BRANCHES, CONSUMERS, TAGS
from morrow.readers.system.row_tables import ROW_TABLES
from morrow.readers.system.schemas import AGGREGATION_FIELDS, OPTIONS, SCHEMAS
from morrow.readers.system.snapshots import SNAPSHOTS
from morrow.readers.system.statistics import STATISTICS

_TABLES: tuple[SystemTable, ...] = (
    SNAPSHOTS,
    SCHEMAS,
    OPTIONS,
    AGGREGATION_FIELDS,
    TAGS,
    BRANCHES,
    CONSUMERS,
    MANIFESTS,
    FILES,
    FILE_KEY_RANGES,
    PARTITIONS,
    BUCKETS,
    TABLE_INDEXES,
    STATISTICS,
    *ROW_TABLES,
)

SYSTEM_TABLES: Mapping[str, SystemTable] = {table.name: table for table in _TABLES}


def system_table(name: str) -> SystemTable:
    """Returns the system table of this name, in lower or upper case, with or without the ``$`` before it.

    Raises:
        TableNotFound: there is no such table. InvalidArgument: the name is not text.
    """
    if not isinstance(name, str):
        raise InvalidArgument(f"the name of a system table is text such as 'snapshots', not {name!r}")
    plain = name.lower().removeprefix("$")
    found = SYSTEM_TABLES.get(plain)
    if found is None:
        raise TableNotFound(f"there is no system table {name!r}; {nearest(plain, [*SYSTEM_TABLES])}")
    return found
