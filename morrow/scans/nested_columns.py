"""Members of ROW columns as columns of a scan: ``scan(["info.name"])``.

A member is named by its path; a column of that very name has precedence. The result's column is called like the member
(``name``), as in Polars, DuckDB and Spark. The scan reads the whole column, and its rows are null where a ROW on the
path is null.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format.schema import TableSchema, find_member
from morrow.engine.format.types import DataField, RowType
from morrow.engine.redaction import format_columns, suggest_name
from morrow.engine.structs import replace
from morrow.scans.table_scan import Scan

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa

    from morrow.engine.plan.scan_plan import ScanPlan
    from morrow.readers.execution.duckdb_relation import PaimonDataset

Path = tuple[DataField, ...]
"""A column and the members down to the one that is returned; one field for a whole column."""


def split_nested_columns(columns: Sequence[str], schema: TableSchema) -> tuple[Path, ...]:
    """Return the path of each name.

    Raises:
        ColumnNotFound: the column or member does not exist. InvalidArgument: two members have the same name.
    """
    paths = tuple(_find_path(name, schema) for name in columns)
    by_name: dict[str, str] = {}
    for name, path in zip(columns, paths):
        other = by_name.setdefault(path[-1].name, name)
        if other != name:
            raise InvalidArgument(
                f"columns {other!r} and {name!r} would both be called {path[-1].name!r}; read the ROW column "
                f"{path[0].name!r}, and choose its members by .struct.field() or SQL"
            )
    return paths


def _find_path(name: str, schema: TableSchema) -> Path:
    path = find_member(schema.fields, name)
    if path is not None:
        return path
    row = next((field for field in schema.fields if name.startswith(f"{field.name}.")), None)
    if row is None:
        return (schema.column(name),)
    if not isinstance(row.type, RowType):
        raise ColumnNotFound(f"there is no column {name!r}: {row.name!r} is {row.type}, which has no members")
    known = [f"{row.name}.{field.name}" for field in row.type.fields]
    raise ColumnNotFound(f"there is no column {name!r}; {suggest_name(name, known)}{format_columns(known)}")


class NestedScan(Scan):
    """A scan whose output has members of ROW columns, made from a scan of the whole columns."""

    def __init__(self, inner: Scan, paths: Sequence[Path]) -> None:
        super().__init__(inner._metadata, inner.request)
        self.inner = inner
        self.paths = tuple(paths)

    @cached_property
    def plan(self) -> ScanPlan:
        """The plan of the whole columns."""
        return self.inner.plan

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the rows, in their Paimon types; a member of a nullable ROW is nullable."""
        return tuple(
            replace(path[-1], type=path[-1].type.with_nullable(any(field.type.nullable for field in path)))
            for path in self.paths
        )

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table with exactly `schema`."""
        import pyarrow as pa

        return pa.Table.from_batches(map(self._select, self.inner.to_arrow().to_batches()), self.schema)

    def to_batches(self, batch_rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield rows as record batches, with memory bounded independently of the table's size."""
        return map(self._select, self.inner.to_batches(batch_rows))

    def to_reader(self, batch_rows: int | None = None) -> pa.RecordBatchReader:
        """Return `to_batches` as an Arrow record batch reader."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches(batch_rows))

    def _select(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa
        import pyarrow.compute as pc

        def read(path: Path) -> pa.Array:
            column = batch.column(path[0].name)
            return reduce(lambda array, field: pc.struct_field(array, [field.name]), path[1:], column)

        return pa.RecordBatch.from_arrays([read(path) for path in self.paths], schema=self.schema)

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame (MAP and MULTISET as lists of key, value structs)."""
        return self.inner.to_polars().select(self._to_expressions())

    def lazy(self) -> pl.LazyFrame:
        """Return a Polars LazyFrame of this scan's snapshot. Planning and reading happen on collect."""
        return self.inner.lazy().select(self._to_expressions())

    def _to_expressions(self) -> list[pl.Expr]:
        from morrow.engine.names import col, get_member

        def build(path: Path) -> pl.Expr:
            found = col(path[0].name)
            for row, field in pairwise(path):
                assert isinstance(row.type, RowType)  # only rows have members
                found = get_member(found, field.name, [each.name for each in row.type.fields])
            return found.alias(path[-1].name)

        return [build(path) for path in self.paths]

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation on `connection` (DuckDB's default connection when None)."""
        from morrow.readers.expressions.sql import quote_identifier

        texts = (
            f"{'.'.join(quote_identifier(field.name) for field in path)} AS {quote_identifier(path[-1].name)}"
            for path in self.paths
        )
        return self.inner.to_duckdb(connection).project(", ".join(texts))

    def dataset(self) -> PaimonDataset:
        """Raise `Unsupported`, since datasets push down whole columns."""
        raise Unsupported("a dataset of members of columns", hint="use to_reader, lazy or to_duckdb")

    def narrowed(self, columns: object = None, filter: object = None) -> Scan:  # noqa: ARG002
        """Raise `Unsupported`: the columns of this scan are not those of its files."""
        raise Unsupported("narrowing a scan of members of columns", hint="scan again with these columns")

    def to_sql(self) -> str:
        """Raise `Unsupported`: the statement reads whole columns."""
        raise Unsupported("to_sql of members of columns", hint="scan the ROW column, and select in SQL")

    def count(self) -> int:
        """Return the number of rows, from metadata if possible."""
        return self.inner.count()
