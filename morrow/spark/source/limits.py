"""Limits on the size of a micro-batch, and their form in Spark.

Spark has classes for limits from 4.2 on; the code that follows a table uses only `Limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from morrow.engine.errors import Unsupported
from morrow.engine.plan.scan_plan import DataFile

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import ReadLimit

UNBOUNDED = 2**63 - 1

SIZES: Mapping[str, Callable[[DataFile], int]] = {
    "files": lambda _: 1,
    "bytes": lambda file: file.size,
    "rows": lambda file: file.row_count,
}
"""The size of a file, by kind of limit."""


@dataclass(frozen=True)
class Limit:
    """A maximum number of ``files``, ``bytes`` or ``rows``; None in place of a `Limit` means no limit."""

    what: str
    most: int

    def size(self, file: DataFile) -> int:
        """Returns the size of a file as it counts towards the limit."""
        return SIZES[self.what](file)


NO_END = Limit("files", UNBOUNDED)
"""Tells Spark that there is a limit, of a kind that it does not have."""


def to_spark(limit: Limit | None) -> ReadLimit:
    """Converts a limit to Spark's classes."""
    from pyspark.sql.streaming import datasource

    if limit is None:
        return datasource.ReadAllAvailable()
    kinds = {"files": datasource.ReadMaxFiles, "bytes": datasource.ReadMaxBytes, "rows": datasource.ReadMaxRows}
    return kinds[limit.what](limit.most)


def from_spark(limit: ReadLimit) -> Limit | None:
    """Converts a limit of Spark. Raises `Unsupported` for another kind."""
    from pyspark.sql.streaming import datasource

    if isinstance(limit, datasource.ReadAllAvailable):
        return None
    if isinstance(limit, datasource.ReadMaxFiles):
        return Limit("files", limit.max_files)
    if isinstance(limit, datasource.ReadMaxBytes):
        return Limit("bytes", limit.max_bytes)
    if isinstance(limit, datasource.ReadMaxRows):
        return Limit("rows", limit.max_rows)
    raise Unsupported(f"the limit {type(limit).__name__} of a stream")
