"""Columns of files as DuckDB's expressions: cast where it casts as Paimon does, and told by no statistics that lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.types import DataField, DataType
from morrow.readers.expressions.sql import quote_identifier
from morrow.readers.merges.sql.types import holds_reals, inner_types, type_name

FILE = "file_index"
"""DuckDB's number of the file that a row is of, one for many rows."""
MOST_DIGITS = 6
"""The most digits of a second in a timestamp: files hold more in a form that DuckDB reads in microseconds."""
REFUSED = (t.VariantType, t.BlobType, t.VectorType, t.MultisetType)
TEXTS = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)
WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)


def column_type(field: DataField) -> str:
    """Returns the type of a column as DuckDB spells it. Raises `Unsupported` for one that it lacks."""
    _check(field.type, field.name)
    return type_name(field.type)


def _check(kind: DataType, name: str) -> None:
    if isinstance(kind, REFUSED):
        raise Unsupported(f"the type {kind.text()} of the column {name!r} as SQL")
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and kind.precision > MOST_DIGITS:
        raise Unsupported(f"the type {kind.text()} of the column {name!r} as SQL", hint="DuckDB reads microseconds")
    for inner in inner_types(kind):
        _check(inner, name)


def file_column(stored: DataField | None, field: DataField, bare: bool) -> str:
    """Returns a column of a file as the column that is read: columns that are newer than the file are null.

    `bare`: without a cast to the type that it has already, and with `FILE`, see `plain_sql`.
    """
    kind = column_type(field)
    if stored is None:
        return f"CAST(NULL AS {kind})"
    _check(stored.type, field.name)
    given, wanted = stored.type.with_nullable(True), field.type.with_nullable(True)
    if given != wanted and not any(allows(given, wanted) for allows in CASTS):
        raise Unsupported(f"values of {field.name!r}, stored as {given.text()}, as {wanted.text()} in SQL")
    name = quote_identifier(stored.name)
    value = name if bare and given == wanted else f"CAST({name} AS {kind})"
    if not holds_reals(wanted) and not _may_hold_null_text(stored.type):
        return value
    return _without_statistics(value, wanted, FILE if bare else value)


def _may_hold_null_text(kind: DataType, nullable: bool = False) -> bool:
    """Returns whether a value, or a member of it, may be text or bytes beside nulls.

    DuckDB 2.0 takes a page without a dictionary that has one text and nulls for that text everywhere, or for null, as
    soon as it tests it for null where it reads it.
    """
    nullable = nullable or kind.nullable
    if isinstance(kind, t.RowType):
        return any(_may_hold_null_text(field.type, nullable) for field in kind.fields)
    return nullable and isinstance(kind, TEXTS)


def _without_statistics(value: str, kind: DataType, tested: str) -> str:
    """Returns the same value by an expression of which DuckDB believes no statistics: those of files leave out NaN.

    `tested` is null only where the value is; it is quickly seen not to be of the file's number.
    """
    if isinstance(kind, t.ArrayType):
        return f"({value})[:]"
    if isinstance(kind, t.MapType):
        return f"map_from_entries(map_entries({value})[:])"
    return f"CASE WHEN {tested} IS NULL THEN NULL ELSE {value} END"


def _is_wider(given: DataType, wanted: DataType) -> bool:
    kinds = [type(kind) for kind in (given, wanted)]
    return all(kind in WHOLE for kind in kinds) and WHOLE.index(kinds[0]) < WHOLE.index(kinds[1])


def _is_longer(given: DataType, wanted: DataType) -> bool:
    for kinds in ((t.VarCharType,), (t.VarBinaryType,)):
        if isinstance(given, kinds) and isinstance(wanted, kinds):
            return bool(given.length <= wanted.length)
    return False


def _is_more_precise(given: DataType, wanted: DataType) -> bool:
    if not isinstance(given, t.DecimalType) or not isinstance(wanted, t.DecimalType):
        return False
    return given.scale == wanted.scale and given.precision <= wanted.precision


CASTS: Sequence[Callable[[DataType, DataType], bool]] = (
    _is_wider,
    _is_longer,
    _is_more_precise,
    lambda given, wanted: isinstance(given, t.FloatType) and isinstance(wanted, t.DoubleType),
    lambda given, wanted: type(given) in WHOLE[:3] and isinstance(wanted, t.DoubleType),
)
"""Whether DuckDB casts as Paimon does, without an error for any value."""
