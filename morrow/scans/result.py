"""The base class of all results: rows as Arrow, Polars, pandas, DuckDB or Spark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import VariantType
from morrow.engine.plugins import require_extra

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession

    from morrow.engine.format.types import DataField


class Rows(ABC):
    """Rows of a scan or of a system table, or changes.

    Subclasses implement `fields`, `title`, `to_batches`, `to_polars` and `count`. The other forms are derived from
    these and may be overridden by faster ones.
    """

    @property
    @abstractmethod
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types."""

    @property
    @abstractmethod
    def title(self) -> str:
        """The name of the table in messages: ``warehouse/db.db/orders``, ``warehouse/db.db/orders$snapshots``."""

    @abstractmethod
    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows as record batches of at most `batch_rows` rows."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows."""

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        from morrow.engine.format.types import to_arrow_schema

        return to_arrow_schema(self.fields)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return `to_batches` as an Arrow record batch reader."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(batch_rows))

    def rows(self, batch_rows: int | None = None) -> Iterator[dict[str, Any]]:
        """Yield rows as dicts of Python values.

        Values of VARIANT are None, numbers, text, lists and dicts. Values of BLOB columns of scans are `morrow.Blob`,
        which reads on demand.
        """
        from morrow.variant import to_values

        for batch in self.to_batches(batch_rows):
            columns = [to_values(column, field.type) for column, field in zip(batch.columns, self.fields, strict=True)]
            yield from (dict(zip(batch.schema.names, values)) for values in zip(*columns))

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return all rows as dicts of Python values, see `rows`."""
        return list(self.rows())

    def to_pandas(self, *, variants: Literal["arrow", "python", "json"] = "arrow") -> pd.DataFrame:
        """Return all rows as a pandas DataFrame of Arrow-backed columns, which keep types and nulls.

        Args:
            variants: give columns of VARIANT as structs of their bytes, as objects of Python, or as JSON text.

        Raises:
            Unsupported: pandas is not installed; install ``morrow[pandas]``.
        """
        with require_extra("to_pandas", "pandas", "pandas"):
            import pandas as pd

        rows = self.to_arrow()
        if variants not in ("arrow", "python", "json"):
            raise InvalidArgument(f"variants is 'arrow', 'python' or 'json', not {variants!r}")
        names = [field.name for field in self.fields if isinstance(field.type, VariantType)]
        if variants == "arrow" or not names:
            return rows.to_pandas(types_mapper=pd.ArrowDtype)
        from morrow.variant import to_json, to_python

        made = rows
        for name in names:
            at = made.schema.get_field_index(name)
            made = made.set_column(at, name, to_json(rows[name]))
        frame = made.to_pandas(types_mapper=pd.ArrowDtype)
        for name in names if variants == "python" else ():
            frame[name] = pd.Series(to_python(rows[name]), index=frame.index, dtype=object)
        return frame

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.execution import duckdb_relation

        return duckdb_relation.make_relation(self.to_arrow(), connection)

    def to_spark(self, spark: SparkSession) -> SparkDataFrame:
        """Return a Spark DataFrame, created from Arrow data on the driver. Use it for results that fit the driver.

        Raises:
            Unsupported: a column of a type that this version of Spark lacks (TIME before 4.1).
            InvalidArgument: the rows take more than 1 GiB; use `morrow.spark.read`, which reads on the executors.
        """
        from morrow.spark import dataframes

        return dataframes.to_spark(self.to_batches(), self.fields, spark, where=self.title)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over the rows in record batches, as `to_batches`."""
        return self.to_batches()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        from morrow.readers.expressions.sql import wrap_stream

        return wrap_stream(self.to_reader()).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        from morrow.html import add_title, build_table

        return add_title(
            repr(self), build_table(("column", "type"), [(field.name, field.type) for field in self.fields])
        )
