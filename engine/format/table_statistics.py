"""The file of the statistics of a table, ``statistics/stat-<uuid>-<n>``: JSON, as ANALYZE commits it.

snapshotId, schemaId                     the state that was analysed
mergedRecordCount, mergedRecordSize      its rows, and about how many bytes they take in data files
colStats                                 by name: colId, and what is known of distinctCount, min, max, nullCount,
                                         avgLen, maxLen; bounds are text
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from morrow.engine.format.json_file import printed


@dataclass(frozen=True)
class ColumnFacts:
    """Statistics of a column; `minimum` and `maximum` are text, and None where there is no value or no order.

    `distinct_count` is estimated; lengths are characters of text, bytes of binary and of values of fixed size.
    """

    id: int
    distinct_count: int
    minimum: str | None
    maximum: str | None
    null_count: int
    average_length: int
    greatest_length: int


@dataclass(frozen=True)
class TableStatistics:
    """Statistics of one state of a table."""

    snapshot_id: int
    schema_id: int
    record_count: int
    record_size: int
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)


def encode_statistics(statistics: TableStatistics) -> bytes:
    """Encodes the file as Java does, members that are not known left out."""
    columns = {
        name: {
            "colId": facts.id,
            "distinctCount": facts.distinct_count,
            "min": facts.minimum,
            "max": facts.maximum,
            "nullCount": facts.null_count,
            "avgLen": facts.average_length,
            "maxLen": facts.greatest_length,
        }
        for name, facts in statistics.columns.items()
    }
    node = {
        "snapshotId": statistics.snapshot_id,
        "schemaId": statistics.schema_id,
        "mergedRecordCount": statistics.record_count,
        "mergedRecordSize": statistics.record_size,
        "colStats": {name: {k: v for k, v in facts.items() if v is not None} for name, facts in columns.items()},
    }
    return printed(node)
