"""Values of the text formats (json, csv), as Java's casts to and from text write and read them.

Integers and DECIMAL are digits; FLOAT and DOUBLE also ``NaN`` and ``Infinity``; BOOLEAN ``true`` or ``false``; BINARY
base64; DATE ``2024-02-29``; TIME ``12:30:00.5``; TIMESTAMP ``2024-02-29 12:30:00.5``. TIMESTAMP_LTZ is written on the
clock of the writer's machine, which the file does not name: it cannot be read back exactly and is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.names import member
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.casts.real_text import real_texts

DATE_FORMAT = "%Y-%m-%d"
TIME_FORMAT = "%H:%M:%S%.f"
TIMESTAMP_FORMAT = "%Y-%m-%d %H:%M:%S%.f"
BOOLEANS = {"true": True, "false": False}

TEXT_TYPES = (t.CharType, t.VarCharType)


MARK, MARK_IN_JSON = "\x01number ", r"\u0001number "
"""Before the text of a number that JSON has in place of a text."""


def text_dtype(type_: t.DataType) -> pl.DataType:
    """Returns the dtype of `type_` with text for every atomic type, to which a JSON document is decoded."""
    if isinstance(type_, t.RowType):
        return pl.Struct({member.name: text_dtype(member.type) for member in type_.fields})
    if isinstance(type_, (t.ArrayType, t.VectorType)):
        return pl.List(text_dtype(type_.element))
    if isinstance(type_, t.MapType):
        return pl.Map(pl.String(), text_dtype(type_.value))
    return pl.String()


def parsed(text: pl.Expr, type_: t.DataType, where: str, *, marks: bool = False) -> pl.Expr:
    """Parses values of `type_` from text of `text_dtype(type_)`; text that does not parse fails when collected.

    With `marks` text may begin with `MARK`: it is that of a number.

    Raises:
        Unsupported: TIMESTAMP_LTZ, and types that Paimon's text formats cannot write.
    """
    if isinstance(type_, t.RowType):
        names = [m.name for m in type_.fields]
        members = [parsed(member(text, m.name, names), m.type, where, marks=marks).alias(m.name) for m in type_.fields]
        return pl.when(text.is_not_null()).then(pl.struct(members))
    if isinstance(type_, (t.ArrayType, t.VectorType)):
        return text.list.eval(parsed(pl.element(), type_.element, where, marks=marks)).cast(polars_dtype(type_))
    if isinstance(type_, t.MapType):
        return _entries(text, type_, where, marks=marks)
    parser = _PARSERS.get(type(type_))
    if parser is None:
        raise Unsupported(f"the type {type_} in a text format", where=where)
    if marks:
        text = _as_doubles(text) if isinstance(type_, TEXT_TYPES) else text.str.strip_prefix(MARK)
    return parser(text, type_)


def _as_doubles(text: pl.Expr) -> pl.Expr:
    """Returns text, and for marked numbers what Java writes for the double."""
    number = text.str.strip_prefix(MARK).cast(pl.Float64, strict=False)
    written = number.map_batches(lambda series: real_texts(series, t.DoubleType()), return_dtype=pl.String())
    return pl.when(text.str.starts_with(MARK)).then(written).otherwise(text)


def _entries(text: pl.Expr, type_: t.MapType, where: str, *, marks: bool) -> pl.Expr:
    if not isinstance(type_.key, (*TEXT_TYPES, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)):
        # Java writes keys of other types in their internal form and cannot read them back itself.
        raise Unsupported(f"the map key type {type_.key} in a text format", where=where)
    plain = pl.List(pl.Struct({"key": pl.String(), "value": text_dtype(type_.value)}))
    entry = pl.struct(
        parsed(pl.element().struct.field("key"), type_.key, where).alias("key"),
        parsed(pl.element().struct.field("value"), type_.value, where, marks=marks).alias("value"),
    )
    return text.cast(plain).list.eval(entry)


def _cast(text: pl.Expr, type_: t.DataType) -> pl.Expr:
    return text.cast(polars_dtype(type_))


def _timestamp(text: pl.Expr, type_: Any) -> pl.Expr:
    dtype = polars_dtype(type_)
    assert isinstance(dtype, pl.Datetime)
    return text.str.to_datetime(TIMESTAMP_FORMAT, time_unit=dtype.time_unit, strict=True)


_PARSERS: dict[type[t.DataType], Callable[[pl.Expr, Any], pl.Expr]] = {
    t.CharType: lambda text, _: text,
    t.VarCharType: lambda text, _: text,
    t.BinaryType: lambda text, _: text.str.decode("base64"),
    t.VarBinaryType: lambda text, _: text.str.decode("base64"),
    t.BooleanType: lambda text, _: text.str.to_lowercase().replace_strict(BOOLEANS, return_dtype=pl.Boolean),
    t.DateType: lambda text, _: text.str.to_date(DATE_FORMAT),
    t.TimeType: lambda text, _: text.str.to_time(TIME_FORMAT),
    t.TimestampType: _timestamp,
    **dict.fromkeys((t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType), _cast),
    **dict.fromkeys((t.FloatType, t.DoubleType, t.DecimalType), _cast),
}
