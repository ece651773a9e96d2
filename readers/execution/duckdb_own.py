"""Scans that DuckDB makes itself: of files whose rows are rows of the table as they are, by its reader of Parquet.

DuckDB then prunes columns, row groups and partitions of its own accord, with all of its threads, and no row passes
through Arrow. Rows under masks are handed over instead (`duckdb_stream`): a sum of 2 million rows, of which a tenth is
dead, then takes 1.7 times the CPU of the plain scan, while bits of positions in a list take 2.7, joins with the dead
positions 3.6 and `get_bit` 5 times.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.engine.io.store import FileStore
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import ScanPlan, Section, SectionKind
from morrow.readers.execution.dataset import PaimonDataset
from morrow.readers.execution.plain_sql import PARQUET, plain_sql
from morrow.readers.expressions.duckdb_names import is_apart
from morrow.readers.files.file_frames import source_of

if TYPE_CHECKING:
    import duckdb

MOST_FILES = 256
"""Files at most: of more, metadata tells faster than their footers which a query needs."""
MOST_PARTITIONS = 16
"""Each partition is a query of its own."""
BYTES = "BLOB"
"""How DuckDB spells their type."""
ALLOWED = "concat(lower(current_setting('enable_external_access')::VARCHAR), current_setting('disabled_filesystems'))"
"""An expression of what a connection may open, which DuckDB knows while it binds a query."""


def own_scan(
    source: PaimonDataset, connection: duckdb.DuckDBPyConnection, *, may_read: bool | None = None
) -> str | None:
    """Returns the statement by which DuckDB reads a dataset itself; None where it is handed the rows.

    `may_read`: whether the connection `reads_files`, where that is known.

    Raises:
        CorruptFile, FileMissing, UnsafePath: a file is gone, has another size than metadata says, or lies elsewhere.
    """
    if source.plan is None or not is_apart(source.schema):
        return None
    plan, store = source.plan(None, None)
    if not _is_plain(plan, store) or not (reads_files(connection) if may_read is None else may_read):
        return None
    try:
        texts = [plain_sql(plan, store, bare=True), plain_sql(plan, store)]
    except Unsupported:
        return None
    for part in plan.parts:
        for file in part.files:
            source_of(file, part, store)
    return _bound(texts, connection)


def _bound(texts: Sequence[str], connection: duckdb.DuckDBPyConnection) -> str | None:
    """Returns the first statement that DuckDB binds to the types of the last, which has all casts.

    None where DuckDB does not take the files' metadata for good, or sees bytes in place of text: another reader says
    what is wrong with which file.
    """
    with connection.cursor() as cursor:
        types = [_types(text, cursor) for text in texts]
    if types[-1] is None or any(_writes_escapes(found, types[-1]) for found in types[:-1] if found is not None):
        return None
    return texts[types.index(types[-1])]


def _writes_escapes(found: Sequence[str], wanted: Sequence[str]) -> bool:
    """Returns whether casts make text of bytes, or bytes of text: DuckDB's write and read escapes (``\\xC3``)."""
    return any(one.count(BYTES) != other.count(BYTES) for one, other in zip(found, wanted))


def _types(text: str, connection: duckdb.DuckDBPyConnection) -> list[str] | None:
    import duckdb

    try:
        return list(map(str, connection.sql(text).types))
    except duckdb.Error:
        return None


def _is_plain(plan: ScanPlan, store: FileStore) -> bool:
    """Returns whether all rows of all files are wanted, and the files few."""
    if not store.is_local or store.checks_pages or not plan.columns or plan.limit is not None:
        return False
    if plan.filter.predicate != ALWAYS or plan.filter.residuals:
        return False
    sections = [(part, section) for part in plan.parts for section in part.sections]
    if not sections or sum(len(section.files) for _, section in sections) > MOST_FILES:
        return False
    partitions = {section.partition_row for _, section in sections}
    return len(partitions) <= MOST_PARTITIONS and all(_is_unmasked(part, section) for part, section in sections)


def _is_unmasked(plan: ScanPlan, section: Section) -> bool:
    return section.kind is SectionKind.RAW and not any(
        file.format != PARQUET or file.deletion is not None or (plan.drops_retractions and file.may_hold_retractions)
        for file in section.files
    )


def reads_files(connection: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether the connection may read files of the local disk."""
    with connection.cursor() as cursor:
        return told_to_read(cursor.execute(f"SELECT {ALLOWED}").fetchall()[0][0])


def told_to_read(allowed: str) -> bool:
    """Returns whether a connection may read files of the local disk, of which `ALLOWED` is this."""
    return allowed == "true"
