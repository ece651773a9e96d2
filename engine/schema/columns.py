"""The columns of a new table, from any description of them, and their ids.

Arrow schemas (and objects that export one), SQL text, mappings of names to types, and fields of another table are first
read as `Column` values. `assign_ids` then converts them to fields with ids as Paimon assigns them.

An Arrow type is converted to the Paimon type that holds all of its values, or raises an error that suggests another
type. Unsigned integers become the next wider signed type (uint64: DECIMAL(20, 0)). Encodings (dictionary, run-end,
large, view and fixed-size layouts) are dropped. Time zones are dropped, too, because Paimon's zoned timestamps are
instants.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa
from pyarrow import types as is_

from morrow.engine.arguments import refuse_depth
from morrow.engine.errors import InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import (
    MAX_DECIMAL_PRECISION,
    VECTOR_ELEMENT_TYPES,
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    DataField,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    MultisetType,
    RowType,
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
    VectorType,
)
from morrow.engine.schema.sql_columns import Column, Columns, parse_columns, parse_type
from morrow.engine.structs import replace

if TYPE_CHECKING:
    import polars as pl

TypeLike: TypeAlias = "str | DataType | pa.DataType | pl.DataType | type"
SchemaLike: TypeAlias = object
"""SQL text, an Arrow schema or an object that exports one, fields, a `TableSchema`, or a mapping of names to types.

The types of a mapping are SQL text, or types of Arrow, Polars or Python.
"""


@refuse_depth("types are")
def read_columns(schema: SchemaLike) -> Columns:
    """Read a description of columns.

    Raises:
        InvalidArgument: not a description of columns, SQL that does not parse, or an Arrow type that no Paimon type
            holds without loss.
        Unsupported: a type that is not in the specification.
    """
    if isinstance(schema, str):
        return parse_columns(schema)
    if isinstance(schema, TableSchema):
        return Columns(tuple(map(_convert_field, schema.fields)), schema.primary_keys)
    if (arrow := _find_arrow_schema(schema)) is not None:
        return Columns(tuple(map(_convert_arrow_field, arrow)))
    if isinstance(schema, Mapping):
        return Columns(tuple(_read_column(name, kind) for name, kind in schema.items()))
    if isinstance(schema, Iterable):
        return Columns(tuple(map(_convert_item, schema)))
    raise _make_schema_error(schema)


def read_type(kind: object, column: str) -> DataType:
    """Read one type from SQL, Arrow, Polars, Python or itself; `column` goes into errors. Raises as `read_columns`."""
    if isinstance(kind, str):
        return parse_type(kind, column)
    if isinstance(kind, DataType):
        return kind
    if isinstance(kind, pa.DataType):
        return to_paimon_type(kind, column)
    if (polars := _convert_polars_type(kind)) is not None:
        return to_paimon_type(polars, column)
    raise InvalidArgument(
        f"the column {column!r} has the type {kind!r}; give SQL text such as 'BIGINT NOT NULL', or a type of pyarrow, "
        "Polars or Python"
    )


def _convert_polars_type(kind: object) -> pa.DataType | None:
    """Return the Arrow type of a Polars type, or of a Python type that Polars accepts; None for anything else."""
    import polars as pl

    from morrow.engine.library_versions import to_arrow_schema

    if not isinstance(kind, (type, pl.DataType)) or kind in (pl.Object, pl.Unknown, object):
        return None
    if isinstance(kind, type) and issubclass(kind, pl.Datetime):
        kind = kind()  # without a unit, Polars knows only the class
    try:
        return to_arrow_schema(pl.Schema({"": kind})).field(0).type
    except (TypeError, ValueError, pl.exceptions.PolarsError, pa.ArrowInvalid):
        return None


def assign_ids(columns: Sequence[Column], next_id: int = 0) -> tuple[tuple[DataField, ...], int]:
    """Return fields with ids from `next_id` on, and the highest id assigned (`next_id` - 1 without fields).

    A column gets its id before the members inside its type do; a member gets its id after the members inside its type.
    """
    ids = itertools.count(next_id)
    fields = tuple(
        DataField(next(ids), c.name, assign_type_ids(c.type, ids), description=c.comment, default_value=c.default)
        for c in columns
    )
    return fields, next(ids) - 1


def assign_type_ids(data_type: DataType, ids: Iterator[int]) -> DataType:
    """Return the type with new ids for all members of its rows."""
    if isinstance(data_type, RowType):
        return replace(data_type, fields=tuple(_assign_member_ids(f, ids) for f in data_type.fields))
    if isinstance(data_type, MapType):
        key = assign_type_ids(data_type.key, ids)
        return replace(data_type, key=key, value=assign_type_ids(data_type.value, ids))
    if isinstance(data_type, (ArrayType, VectorType, MultisetType)):
        return replace(data_type, element=assign_type_ids(data_type.element, ids))
    return data_type


def _assign_member_ids(member: DataField, ids: Iterator[int]) -> DataField:
    inner = assign_type_ids(member.type, ids)
    return replace(member, id=next(ids), type=inner)


def _read_column(name: object, kind: object) -> Column:
    if not isinstance(name, str):
        raise InvalidArgument(f"the column name {name!r} is not text")
    if isinstance(kind, str):
        # The text may continue after the type: "INT NOT NULL COMMENT 'pieces' DEFAULT 1".
        (column,) = parse_columns(f"{_quote_name(name)} {kind}", only=name).columns
        return column
    return Column(name, read_type(kind, name))


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _convert_field(field: DataField) -> Column:
    return Column(field.name, field.type, field.description, field.default_value)


def _convert_arrow_field(field: pa.Field) -> Column:
    comment = (field.metadata or {}).get(COMMENT)
    kind = to_paimon_type(field.type, field.name).with_nullable(field.nullable)
    return Column(field.name, kind, None if comment is None else comment.decode())


ITEMS: tuple[tuple[type, Callable[..., Column]], ...] = (
    (Column, lambda column: column),
    (DataField, _convert_field),
    (pa.Field, _convert_arrow_field),
)


def _convert_item(item: object) -> Column:
    for kind, read in ITEMS:
        if isinstance(item, kind):
            return read(item)
    if isinstance(item, tuple) and len(item) == 2:  # a pair of a name and a type
        return _read_column(*item)
    raise _make_schema_error(item)


def _find_arrow_schema(schema: Any) -> pa.Schema | None:
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "collect_schema"):  # a lazy frame of Polars
        schema = schema.collect_schema()
    if type(schema).__module__ in ("polars.schema", "polars.dataframe.frame"):
        from morrow.engine.library_versions import to_arrow_schema

        columns = cast("pl.Schema", getattr(schema, "schema", schema))
        check_polars_schema(columns)
        return to_arrow_schema(columns)
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    if hasattr(schema, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(schema).schema
    found = getattr(schema, "schema", None)  # a pyarrow table, dataset or reader
    return found if isinstance(found, pa.Schema) else None


def _make_schema_error(schema: object) -> InvalidArgument:
    return InvalidArgument(
        f"{type(schema).__name__} describes no columns; give a pyarrow or Polars schema, SQL text such as "
        "'id BIGINT NOT NULL, name STRING', or a mapping of names to types"
    )


COMMENT = b"comment"
"""The key of field metadata that holds comments."""

UNIT_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
UINT64_DIGITS = 20

LIST_LAYOUTS = (is_.is_list, is_.is_large_list, is_.is_list_view, is_.is_large_list_view, is_.is_fixed_size_list)

PLAIN: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): TinyIntType(),
    pa.int16(): SmallIntType(),
    pa.int32(): IntType(),
    pa.int64(): BigIntType(),
    pa.uint8(): SmallIntType(),
    pa.uint16(): IntType(),
    pa.uint32(): BigIntType(),
    pa.uint64(): DecimalType(precision=UINT64_DIGITS),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
    pa.time32("s"): TimeType(precision=0),
    pa.time32("ms"): TimeType(precision=3),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), VarCharType()),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), VarBinaryType()),
}

REFUSED: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (is_.is_null, "no value of it says which type is meant; name one, such as pa.string()"),
    (is_.is_time64, "Paimon keeps milliseconds of a time of day; use pa.time32('ms'), or TIME(3) in SQL"),
    (is_.is_duration, "Paimon has no time spans; use pa.int64() and name the unit in the column"),
    (is_.is_interval, "Paimon has no time spans; use pa.int64() and name the unit in the column"),
    (is_.is_union, "Paimon has no unions; use a struct with a field for each case"),
)

Converter: TypeAlias = Callable[[pa.DataType, str], DataType]


def to_paimon_type(arrow: pa.DataType, column: str) -> DataType:
    """Return the nullable Paimon type of an Arrow type; `column` goes into errors.

    Raises `InvalidArgument`: no Paimon type holds all values of the Arrow type.
    """
    if arrow in PLAIN:
        return PLAIN[arrow]
    for applies, convert in CONVERTERS:
        if applies(arrow):
            return convert(arrow, column)
    reasons = (reason for applies, reason in REFUSED if applies(arrow))
    raise _make_type_error(arrow, column, next(reasons, "cast it to another type"))


def _convert_member(field: pa.Field, column: str) -> DataType:
    return to_paimon_type(field.type, f"{column}.{field.name}").with_nullable(field.nullable)


def _convert_decimal(arrow: pa.DataType, column: str) -> DataType:
    # A negative scale means zeros before the point, a scale above the precision zeros after it.
    digits, scale = max(arrow.precision, arrow.scale), max(arrow.scale, 0)
    if arrow.scale < 0:
        digits -= arrow.scale
    if digits > MAX_DECIMAL_PRECISION:
        raise _make_type_error(arrow, column, f"Paimon's decimals have {MAX_DECIMAL_PRECISION} digits at most")
    return DecimalType(precision=digits, scale=scale)


def _convert_timestamp(arrow: pa.DataType, _: str) -> DataType:
    digits = UNIT_DIGITS[arrow.unit]
    return TimestampType(precision=digits) if arrow.tz is None else LocalZonedTimestampType(precision=digits)


def _is_list(arrow: pa.DataType) -> bool:
    return any(is_list(arrow) for is_list in LIST_LAYOUTS)


def _is_vector(arrow: pa.DataType) -> bool:
    """Return whether an Arrow type is a list of a fixed size whose elements a VECTOR can have."""
    return (
        is_.is_fixed_size_list(arrow)
        and arrow.list_size > 0
        and isinstance(PLAIN.get(arrow.value_type), VECTOR_ELEMENT_TYPES)
    )


def _convert_map(arrow: pa.DataType, column: str) -> DataType:
    key = to_paimon_type(arrow.key_type, f"{column}.key").with_nullable(False)
    return MapType(key=key, value=_convert_member(arrow.item_field, column))


def _convert_extension(arrow: pa.DataType, column: str) -> DataType:
    check_extension(arrow, column)
    return to_paimon_type(arrow.storage_type, column)


def check_extension(arrow: pa.DataType, column: str) -> None:
    """Raise `InvalidArgument` for an Arrow extension type whose stored values lose their meaning without it."""
    name = getattr(arrow, "extension_name", None)
    if name == "pandas.period":
        raise _make_type_error(arrow, column, f"convert its periods: df[{column!r}].dt.to_timestamp(), or .astype(str)")
    if name == "arrow.opaque" and not is_.is_string(arrow.storage_type):
        raise _make_type_error(arrow, column, "cast it to another type where the rows come from")


POLARS_ADVICE = {
    "Object": "make a column of its values of one type",
    **dict.fromkeys(("Int128", "UInt128"), f"cast it to pl.Decimal({MAX_DECIMAL_PRECISION}, 0)"),
}


def check_polars_schema(schema: pl.Schema) -> None:
    """Raise `InvalidArgument` for types without one of Arrow: Polars exports Python objects as addresses in memory."""
    for name, kind in schema.items():
        if advice := POLARS_ADVICE.get(str(kind)):
            raise InvalidArgument(f"column {name!r} has Polars' type {kind}, which Arrow lacks; {advice}")


def _convert_row(arrow: pa.DataType, column: str) -> DataType:
    members = [arrow.field(i) for i in range(arrow.num_fields)]
    return RowType(fields=tuple(_convert_row_member(i, member, column) for i, member in enumerate(members)))


def _convert_row_member(position: int, member: pa.Field, column: str) -> DataField:
    comment = (member.metadata or {}).get(COMMENT)
    return DataField(
        position, member.name, _convert_member(member, column), None if comment is None else comment.decode()
    )


CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Converter], ...] = (
    (lambda t: isinstance(t, pa.BaseExtensionType), _convert_extension),
    (is_.is_dictionary, lambda t, column: to_paimon_type(t.value_type, column)),
    (is_.is_run_end_encoded, lambda t, column: to_paimon_type(t.value_type, column)),
    (is_.is_decimal, _convert_decimal),
    (is_.is_timestamp, _convert_timestamp),
    (is_.is_fixed_size_binary, lambda t, _: BinaryType(length=t.byte_width)),
    (_is_vector, lambda t, column: VectorType(element=_convert_member(t.value_field, column), length=t.list_size)),
    (_is_list, lambda t, column: ArrayType(element=_convert_member(t.value_field, column))),
    (is_.is_map, _convert_map),
    (is_.is_struct, _convert_row),
)


def _make_type_error(arrow: pa.DataType, column: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"the column {column!r} has the Arrow type {arrow}, which Paimon has no type for; {reason}")


def check_cases(schema: TableSchema, where: str, before: TableSchema | None) -> None:
    """Check that no names of columns, or of members of one row, have become equal except for case.

    Paimon allows such names, but DuckDB and Spark cannot distinguish the columns: neither can be selected. Pairs that
    another writer has made are kept.

    Raises `InvalidArgument`: there is such a pair that `before` does not have.
    """
    there = {} if before is None else _find_alike(before)
    for ids, (first, second) in _find_alike(schema).items():
        if ids not in there:
            raise InvalidArgument(
                f"{where}: the columns {first!r} and {second!r} differ in case alone, and SQL could name neither; "
                "rename one of them"
            )


def _find_alike(schema: TableSchema) -> dict[frozenset[int], tuple[str, str]]:
    """Return the paths of columns or members whose names differ only in case, by the ids of the pair."""
    rows = [("", schema.fields)]
    rows += [(f"{path}.", kind.fields) for path, kind in iterate_types(schema) if isinstance(kind, RowType)]
    found: dict[frozenset[int], tuple[str, str]] = {}
    for parent, members in rows:
        folded: dict[str, list[DataField]] = {}
        for member in members:
            folded.setdefault(member.name.casefold(), []).append(member)
        for alike in folded.values():
            for one, other in combinations(alike, 2):
                found[frozenset((one.id, other.id))] = f"{parent}{one.name}", f"{parent}{other.name}"
    return found


def iterate_types(schema: TableSchema) -> Iterator[tuple[str, DataType]]:
    for field in schema.fields:
        yield from _iterate_nested_types(field.name, field.type)


def _iterate_nested_types(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    yield path, kind
    if isinstance(kind, RowType):
        for member in kind.fields:
            yield from _iterate_nested_types(f"{path}.{member.name}", member.type)
    if isinstance(kind, MapType):
        yield from _iterate_nested_types(f"{path}.key", kind.key)
        yield from _iterate_nested_types(f"{path}.value", kind.value)
    if isinstance(kind, (ArrayType, VectorType, MultisetType)):
        yield from _iterate_nested_types(f"{path}.element", kind.element)
