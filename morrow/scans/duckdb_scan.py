"""The class `DuckDBScan`: a scan that DuckDB runs, by ``Table.scan(..., engine="duckdb")``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.plan.request import ScanRequest
from morrow.scans.scan_arguments import checked_rows
from morrow.scans.table_scan import Scan

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

BATCH_ROWS = 131_072


class DuckDBScan(Scan):
    """A scan whose rows are those of `Scan.to_sql`, run by a DuckDB that spills to disk beyond memory.

    Its results raise `Unsupported` for what SQL cannot say. Rows come in no order.
    """

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields rows as record batches, in bounded memory whatever the table's size."""
        from morrow.readers.execution import duckdb_engine

        return duckdb_engine.to_batches(self.plan, self._metadata.store, checked_rows(batch_rows) or BATCH_ROWS)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Returns `to_batches` as an Arrow record batch reader."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(batch_rows))

    def to_arrow(self) -> pa.Table:
        """Returns all rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Returns all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        import polars as pl

        found = pl.from_arrow(self.to_arrow())
        assert isinstance(found, pl.DataFrame)  # of a table
        return found

    def lazy(self) -> pl.LazyFrame:
        """Raises `Unsupported`: a LazyFrame is run by Polars."""
        raise Unsupported("a LazyFrame of a scan that DuckDB runs", hint="leave out engine, or use to_polars")

    def count(self) -> int:
        """Returns the number of rows."""
        from morrow.readers.execution import duckdb_engine

        if not self.plan.columns:
            return super().count()
        return duckdb_engine.count(self.plan, self._metadata.store)

    def adapted(self, change: Callable[[ScanRequest], ScanRequest]) -> Scan:
        """Returns a scan of the same snapshot whose request is changed by `change`."""
        return DuckDBScan(self._metadata, change(self._request))


def with_engine(scan: Scan, engine: str | None) -> Scan:
    """Returns the scan as one that this engine runs. Raises `InvalidArgument` for an unknown one."""
    if engine is None or engine == "polars":
        return scan
    if engine == "duckdb":
        return DuckDBScan(scan._metadata, scan.request)
    raise InvalidArgument(f"engine is 'polars' or 'duckdb', not {engine!r}")
