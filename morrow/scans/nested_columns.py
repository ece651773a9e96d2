"""Members of ROW columns as columns of a scan: ``scan(["info.name"])``.

A member is named by its path; a column of that very name has precedence. The result's column is called like the
member (``name``), as in Polars, DuckDB and Spark. The scan reads the whole column; a row is null if a ROW on the path
is null.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import TableSchema, find_member
from morrow.engine.format.types import DataField, RowType
from morrow.engine.redaction import format_columns, suggest_name
from morrow.engine.structs import replace

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

Path = tuple[DataField, ...]
"""A column and the members down to the one that is returned; one field for a whole column."""


def split_nested_columns(columns: Sequence[str], schema: TableSchema) -> tuple[Path, ...]:
    """Return the path of each name.

    Raises `ColumnNotFound`: the column or member does not exist. `InvalidArgument`: two members have the same name.
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


def make_member_field(path: Path) -> DataField:
    """Return the member as a column; a member of a nullable ROW is nullable."""
    return replace(path[-1], type=path[-1].type.with_nullable(any(field.type.nullable for field in path)))


def build_member(path: Path) -> pl.Expr:
    """Return the member as an expression over the columns of a table."""
    from morrow.engine.names import col, get_member

    found = col(path[0].name)
    for row, field in pairwise(path):
        assert isinstance(row.type, RowType)  # only rows have members
        found = get_member(found, field.name, [each.name for each in row.type.fields])
    return found


def read_member(rows: pa.RecordBatch | pa.Table, path: Path) -> pa.Array | pa.ChunkedArray:
    """Return the values of the member in these rows of a table."""
    import pyarrow.compute as pc

    column = rows.column(path[0].name)
    return reduce(lambda array, field: pc.struct_field(array, [field.name]), path[1:], column)
