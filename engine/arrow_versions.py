"""Differences between pyarrow versions; no other module checks versions of pyarrow.

17   casts no views of text and bytes, not even to other layouts
18   casts views
21   writes views to Parquet files
22   writes TIME to Parquet files as local time
23   writes TIME as either
26   timestamps of ORC files beyond 64 bits of nanoseconds are errors; older versions return other timestamps
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from morrow.engine.plugins import check_libraries, parse_version

check_libraries()
VERSION = parse_version(pa.__version__)

CASTS_VIEWS = VERSION >= (18,)
WRITES_VIEWS = VERSION >= (21,)
CHECKS_ORC_TIMESTAMPS = VERSION >= (26,)


def estimate_bytes(rows: pa.Table) -> int:
    """Return the bytes of these rows, or of all buffers that they share if this version does not count views."""
    try:
        return int(rows.nbytes)
    except pa.ArrowTypeError:
        return int(rows.get_total_buffer_size())


PARQUET_PROPERTIES: dict[str, Any] = {"write_time_adjusted_to_utc": True} if VERSION >= (23,) else {}
"""Properties of Parquet writers that state what versions before 22 do without being asked."""
WRITES_UTC_TIMES = VERSION[0] != 22
"""Whether TIME is written to Parquet files as Java Paimon does."""

TEXT, BYTES = (pa.string_view(), pa.binary_view()) if WRITES_VIEWS else (pa.large_string(), pa.large_binary())
"""The types with which Parquet columns of text and bytes are written: the layout that Polars exports fastest."""
