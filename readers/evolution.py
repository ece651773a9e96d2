"""Schema evolution: columns of a file, written with an older schema, as columns of the schema that is read.

A column is known by its field id, nested members too. A file's columns are read by their names in the file's schema;
then they are renamed, moved and cast, and columns that the file does not have are null. (Default values of columns
are given when rows are written; reading never fills them in.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polars as pl

from morrow.engine.format import types as t
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate, conjuncts
from morrow.readers.casts import cast_expression
from morrow.readers.casts.base import same_values
from morrow.readers.dtypes import polars_dtype

Fields = Sequence[t.DataField]

INTEGER_BITS: dict[type[t.DataType], int] = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}


def file_columns(file_fields: Fields, read_fields: Fields) -> tuple[t.DataField, ...]:
    """The columns of the file that the read needs, in file order; nested columns whole."""
    wanted = {field.id for field in read_fields}
    return tuple(field for field in file_fields if field.id in wanted)


def project(
    frame: pl.LazyFrame, file_fields: Fields, read_fields: Fields, *, where: str | None = None, zone: str = "UTC"
) -> pl.LazyFrame:
    """Select `read_fields`, in their order, from a frame of `file_fields` (in Morrow's dtypes, by name).

    Unchanged and renamed columns are plain columns, through which Polars pushes projections and filters into the scan;
    a column whose type changed costs only its own cast.

    Args:
        frame: the file's rows; columns that the read does not need may be absent.
        where: what to name in errors, such as the file.
        zone: the session's zone, for casts of TIMESTAMP_LTZ.

    Raises:
        Unsupported: a type changed in a way that Java Paimon cannot read either. (A value that its cast cannot take
            fails when the query runs.)
    """
    by_id = {field.id: field for field in file_fields}
    columns = [_column(by_id.get(field.id), field, where, zone) for field in read_fields]
    if any(field.id in by_id for field in read_fields):
        return frame.select(columns)
    # Literals alone would be one row: keep the height of the file.
    return frame.with_columns(columns).select(field.name for field in read_fields)


def _column(written: t.DataField | None, field: t.DataField, where: str | None, zone: str) -> pl.Expr:
    if written is None:
        return pl.lit(None, dtype=polars_dtype(field.type)).alias(field.name)
    column = pl.col(written.name)
    if not same_values(written.type, field.type):
        place = f"{where}, column {field.name}" if where else f"column {field.name}"
        column = cast_expression(column, written.type, field.type, where=place, zone=zone)
    return column if written.name == field.name else column.alias(field.name)


def translate_predicate(predicate: Predicate, file_fields: Fields, read_fields: Fields) -> Predicate:
    """A filter on the columns read, as a filter on the file's columns: for statistics, indexes and row groups only.

    Every row of the file that `predicate` keeps is kept by the result; it may keep more, and is ALWAYS where nothing
    can be said. A comparison is

    * renamed, when the type is the same, or VARCHAR that grew;
    * renamed, when the type is a wider integer now, if its literals fit the file's type. (Other literals match
      nothing in `=` and `IN`; comparisons with them are dropped.)
    * decided, when the file has no such column: all its values are null;
    * dropped for any other type change, because a cast may bring values together or change their order.
    """
    written = {field.id: field for field in file_fields}
    read = {field.name: field for field in read_fields}

    def leaf(part: Leaf) -> Predicate:
        field = read.get(part.column)
        return ALWAYS if field is None else _translated(part, written.get(field.id), field)

    return _mapped(predicate, leaf)


def _mapped(predicate: Predicate, leaf: Callable[[Leaf], Predicate]) -> Predicate:
    if isinstance(predicate, Leaf):
        return leaf(predicate)
    children = [_mapped(child, leaf) for child in predicate.children]
    if isinstance(predicate, And):
        parts = tuple(part for child in children for part in conjuncts(child))
        if NEVER in parts:
            return NEVER
        return parts[0] if len(parts) == 1 else And(parts)
    if ALWAYS in children:
        return ALWAYS
    possible = tuple(child for child in children if child != NEVER)
    return possible[0] if len(possible) == 1 else Or(possible)


def _translated(part: Leaf, written: t.DataField | None, field: t.DataField) -> Predicate:
    if written is None:
        return _of_nulls(part)
    renamed = replace(part, column=written.name)
    if same_values(written.type, field.type) or _is_longer_text(written.type, field.type):
        return renamed
    if part.op in (Op.IS_NULL, Op.IS_NOT_NULL):
        # No cast makes a value of null, but some make null of a value: a DECIMAL that does not fit.
        return renamed if part.op is Op.IS_NOT_NULL else ALWAYS
    if not _is_wider_integer(written.type, field.type):
        return ALWAYS
    limit = 2 ** (INTEGER_BITS[written.type.__class__] - 1)
    fitting = tuple(x for x in part.literals if isinstance(x, int) and -limit <= x < limit)
    if fitting == part.literals:
        return renamed
    if part.op not in (Op.EQ, Op.IN) or not all(isinstance(x, int) for x in part.literals):
        return ALWAYS
    return replace(renamed, literals=fitting) if fitting else NEVER


def _of_nulls(part: Leaf) -> Predicate:
    """What a comparison says of a column that is all null; NOT IN () is left open, engines differ."""
    undecided = part.op is Op.NOT_IN and not part.literals
    return ALWAYS if part.op is Op.IS_NULL or undecided else NEVER


def _is_longer_text(written: t.DataType, read: t.DataType) -> bool:
    return isinstance(written, t.VarCharType) and isinstance(read, t.VarCharType) and read.length >= written.length


def _is_wider_integer(written: t.DataType, read: t.DataType) -> bool:
    before, after = INTEGER_BITS.get(written.__class__), INTEGER_BITS.get(read.__class__)
    return before is not None and after is not None and before < after
