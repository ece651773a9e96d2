"""A read of a system table, in the forms that a scan has: the rows are metadata, or those of the table."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import DataField, arrow_schema
from morrow.engine.plan.filter import Filter, FilterLike, both, parse_filter
from morrow.scan import Scan, checked_columns, checked_limit, checked_rows

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame as SparkDataFrame
    from pyspark.sql import SparkSession

    from morrow.readers.dataset import PaimonDataset

MakeRows = Callable[[Sequence[str]], "pl.DataFrame"]
"""Makes rows with the named columns."""


@dataclass(frozen=True)
class Asked:
    """What a caller wants of a system table: columns in order, a parsed filter, a limit; `fields` are all there are."""

    title: str
    fields: tuple[DataField, ...]
    columns: tuple[str, ...]
    filter: Filter
    limit: int | None

    @classmethod
    def of(
        cls,
        title: str,
        fields: tuple[DataField, ...],
        columns: Sequence[str] | None,
        filter: FilterLike | None,
        limit: int | None,
    ) -> Asked:
        """Raises `ColumnNotFound`, `InvalidArgument` for a call that is wrong."""
        names = tuple(field.name for field in fields)
        wanted = names if columns is None else checked_columns(columns)
        for name in wanted:
            if name not in names:
                raise ColumnNotFound(f"{title} has no column {name!r}; its columns are {', '.join(names)}")
        return cls(title, fields, wanted, parse_filter(filter, fields), checked_limit(limit))

    @property
    def by_name(self) -> dict[str, DataField]:
        return {field.name: field for field in self.fields}

    @property
    def shown(self) -> tuple[DataField, ...]:
        """Output columns."""
        return tuple(self.by_name[name] for name in self.columns)

    @property
    def read(self) -> tuple[DataField, ...]:
        """Output columns and those that only the filter reads."""
        extra = (f for f in self.fields if f.name in self.filter.columns and f.name not in self.columns)
        return (*self.shown, *extra)

    def narrowed(self, columns: Sequence[str] | None, filter: FilterLike | None) -> Asked:
        """Fewer columns and rows; both must be of the output. Raises as `of`."""
        if self.limit is not None and filter is not None:
            raise InvalidArgument("a scan with a limit cannot be narrowed by a filter")
        inner = Asked.of(self.title, self.shown, columns, filter, self.limit)
        return replace(self, columns=inner.columns, filter=both(self.filter, inner.filter))


class SystemScan(ABC):
    """A read of a system table: rows come as Arrow, Polars, pandas or DuckDB.

    What is read is fixed on first use of the rows; make another one to see what has happened since.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows: the columns and types that Paimon documents."""
        return arrow_schema(self.fields)

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types."""
        return self._asked.shown

    @property
    def title(self) -> str:
        """Where the table is, and which system table it is: ``warehouse/db.db/orders$snapshots``."""
        return self._asked.title

    @abstractmethod
    def prepare(self) -> None:
        """Do now what needs no data files: make the plan, or all of the rows where they are metadata."""

    @abstractmethod
    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Rows as record batches."""

    @abstractmethod
    def to_polars(self) -> pl.DataFrame:
        """All rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""

    @abstractmethod
    def lazy(self) -> pl.LazyFrame:
        """The rows as a Polars LazyFrame."""

    @abstractmethod
    def count(self) -> int:
        """The number of rows."""

    @abstractmethod
    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> SystemScan:
        """The same with fewer columns and rows: both must be of this scan's output.

        Raises:
            ColumnNotFound: a column that this scan does not have.
            InvalidArgument: this scan has a limit, which a later filter would change the meaning of.
        """

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """`to_batches` as an Arrow record batch reader."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(batch_rows))

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame of Arrow-backed columns: no type is lost, nulls stay nulls."""
        import pandas as pd

        return self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)

    def dataset(self) -> PaimonDataset:
        """The scan as a pyarrow Dataset: columns and filters pushed into it narrow the scan."""
        from morrow.readers.dataset import PaimonDataset

        def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
            return self.narrowed(columns, filter).to_reader()

        return PaimonDataset(self.schema, read)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers import duckdb_relation

        # DuckDB would push its filters below the limit, so limited rows are handed over as they are.
        source = self.dataset() if self._asked.limit is None else self.to_arrow()
        return duckdb_relation.relation(source, connection)

    def to_spark(self, spark: SparkSession) -> SparkDataFrame:
        """A Spark DataFrame, made by createDataFrame from Arrow; `morrow.spark.read` leaves rows to the executors.

        Raises as `Scan.to_spark`.
        """
        from morrow.readers.spark import handoff

        return handoff.to_spark(self.to_batches(), self.fields, spark, where=self.title)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        asked = self._asked
        parts = [repr(asked.title), f"columns={list(asked.columns)}"]
        if asked.filter.text:
            parts.append(f"filter={asked.filter.text!r}")
        if asked.limit is not None:
            parts.append(f"limit={asked.limit}")
        return f"SystemScan({', '.join(parts)})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"


class MadeScan(SystemScan):
    """Rows that are made at once, out of metadata."""

    def __init__(self, asked: Asked, make: MakeRows) -> None:
        super().__init__(asked)
        self._make = make

    @cached_property
    def _rows(self) -> pl.DataFrame:
        from morrow.readers.expressions.polars import matching

        asked = self._asked
        made = self._make([field.name for field in asked.read])
        frame = matching(asked.filter, asked.read, made.lazy()).select(asked.columns)
        return (frame if asked.limit is None else frame.head(asked.limit)).collect()

    def prepare(self) -> None:
        _ = self._rows

    def to_polars(self) -> pl.DataFrame:
        return self._rows

    def lazy(self) -> pl.LazyFrame:
        return self._rows.lazy()

    def to_arrow(self) -> pa.Table:
        from morrow.readers.dtypes import to_arrow_table

        return to_arrow_table(self._rows, self._asked.shown)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.to_arrow().to_batches(max_chunksize=checked_rows(batch_rows))

    def count(self) -> int:
        return self._rows.height

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> MadeScan:
        return MadeScan(self._asked.narrowed(columns, filter), self._make)


class RowScan(SystemScan):
    """Rows that a scan of the table gives."""

    def __init__(self, asked: Asked, scan: Scan) -> None:
        super().__init__(asked)
        self._scan = scan

    @property
    def scan(self) -> Scan:
        """The scan of the table."""
        return self._scan

    def prepare(self) -> None:
        self._scan.prepare()

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        return self._scan.to_batches(batch_rows)

    def to_arrow(self) -> pa.Table:
        return self._scan.to_arrow()

    def to_polars(self) -> pl.DataFrame:
        return self._scan.to_polars()

    def lazy(self) -> pl.LazyFrame:
        return self._scan.lazy()

    def count(self) -> int:
        return self._scan.count()

    def dataset(self) -> PaimonDataset:
        return self._scan.dataset()

    def explain(self) -> str:
        """What will be read and why, as `Scan.explain`."""
        return self._scan.explain()

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> RowScan:
        return RowScan(self._asked.narrowed(columns, filter), self._scan.narrowed(columns, filter))
