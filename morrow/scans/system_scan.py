"""Scans of system tables, whose rows are metadata or the table's own rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.types import DataField
from morrow.engine.names import cols
from morrow.engine.plan.filter import Filter, FilterLike, both, parse_filter
from morrow.engine.telling import did_you_mean, shown
from morrow.engine.values import replace
from morrow.scans.rows import Rows
from morrow.scans.scan_arguments import checked_columns, checked_limit, checked_rows
from morrow.scans.table_scan import Scan

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc

    from morrow.readers.execution.dataset import PaimonDataset

MakeRows = Callable[[Sequence[str]], "pl.DataFrame"]
"""Makes the rows with the named columns."""


@dataclass(frozen=True)
class Asked:
    """The request for a system table: columns in order, a parsed filter, a limit; `fields` are all its columns."""

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
        """Checks a caller's arguments. Raises `ColumnNotFound`, `InvalidArgument` when they are wrong."""
        names = tuple(field.name for field in fields)
        wanted = names if columns is None else checked_columns(columns)
        for name in wanted:
            if name not in names:
                raise ColumnNotFound(
                    f"{title} has no column {name!r}; {did_you_mean(name, names)}its columns are {', '.join(names)}"
                )
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
        """Returns a request for fewer columns and rows; both refer to the output. Raises as `of`."""
        if self.limit is not None and filter is not None:
            raise InvalidArgument("a scan with a limit cannot be narrowed by a filter")
        inner = Asked.of(self.title, self.shown, columns, filter, self.limit)
        return replace(self, columns=inner.columns, filter=both(self.filter, inner.filter))


class SystemScan(Rows):
    """A read of a system table: rows as Arrow, Polars, pandas, DuckDB or Spark.

    The state is fixed on first use of the rows; make a new scan to see later changes.
    """

    def __init__(self, asked: Asked) -> None:
        self._asked = asked

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types."""
        return self._asked.shown

    @property
    def title(self) -> str:
        """The path of the table with the name of the system table: ``warehouse/db.db/orders$snapshots``."""
        return self._asked.title

    @abstractmethod
    def prepare(self) -> None:
        """Does now what needs no data files: makes the plan, or all rows where they are metadata."""

    @abstractmethod
    def lazy(self) -> pl.LazyFrame:
        """Returns the rows as a Polars LazyFrame."""

    @abstractmethod
    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> SystemScan:
        """Returns this scan with fewer columns and rows; both refer to this scan's output.

        Raises:
            ColumnNotFound: a column that this scan does not have.
            InvalidArgument: a filter on a scan with a limit, whose meaning it would change.
        """

    def dataset(self) -> PaimonDataset:
        """Returns the scan as a pyarrow Dataset: columns and filters pushed into it narrow the scan."""
        from morrow.readers.execution.dataset import PaimonDataset

        def read(columns: Sequence[str] | None, filter: pc.Expression | None) -> pa.RecordBatchReader:
            return self.narrowed(columns, filter).to_reader()

        return PaimonDataset(self.schema, read)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Returns a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.execution import duckdb_relation

        # DuckDB would push its filters below the limit, so limited rows are handed over as they are.
        source = self.dataset() if self._asked.limit is None else self.to_arrow()
        return duckdb_relation.relation(source, connection)

    def __repr__(self) -> str:
        asked = self._asked
        parts = [repr(asked.title), f"columns={list(asked.columns)}"]
        if asked.filter.text:
            parts.append(f"filter={asked.filter.text!r}")
        if asked.limit is not None:
            parts.append(f"limit={asked.limit}")
        return shown(f"SystemScan({', '.join(parts)})")


class MadeScan(SystemScan):
    """A system scan whose rows are made of metadata, all at once."""

    def __init__(self, asked: Asked, make: MakeRows) -> None:
        super().__init__(asked)
        self._make = make

    @cached_property
    def _rows(self) -> pl.DataFrame:
        from morrow.readers.expressions.polars import matching

        asked = self._asked
        made = self._make([field.name for field in asked.read])
        frame = matching(asked.filter, asked.read, made.lazy()).select(cols(asked.columns))
        return (frame if asked.limit is None else frame.head(asked.limit)).collect()

    def prepare(self) -> None:
        _ = self._rows

    def to_polars(self) -> pl.DataFrame:
        return self._rows

    def lazy(self) -> pl.LazyFrame:
        return self._rows.lazy()

    def to_arrow(self) -> pa.Table:
        from morrow.readers.casts.dtypes import to_arrow_table

        return to_arrow_table(self._rows, self._asked.shown)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        yield from self.to_arrow().to_batches(max_chunksize=checked_rows(batch_rows))

    def count(self) -> int:
        return self._rows.height

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> MadeScan:
        return MadeScan(self._asked.narrowed(columns, filter), self._make)


class RowScan(SystemScan):
    """A system scan whose rows are those of a scan of the table."""

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
        """Explains the read, as `Scan.explain`."""
        return self._scan.explain()

    def narrowed(self, columns: Sequence[str] | None = None, filter: FilterLike | None = None) -> RowScan:
        return RowScan(self._asked.narrowed(columns, filter), self._scan.narrowed(columns, filter))
