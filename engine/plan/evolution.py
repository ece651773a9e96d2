"""Translates filters to the columns of an older schema, for a data file's statistics, indexes and row groups.

Column identity is the field id. Source: the specification's schema evolution, and Java's rule that a pushed filter may
keep more rows but never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from morrow.engine.format import types as t
from morrow.engine.format.type_equality import same_values
from morrow.engine.plan.predicate import ALWAYS, NEVER, And, Leaf, Op, Or, Predicate, conjuncts

Fields = Sequence[t.DataField]

INTEGER_BITS: dict[type[t.DataType], int] = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}


def translate_predicate(predicate: Predicate, file_fields: Fields, read_fields: Fields) -> Predicate:
    """Translates a filter on the columns read to the file's columns: for statistics, indexes and row groups only.

    Every row of the file that `predicate` keeps is kept by the result; it may keep more, and is ALWAYS where nothing
    can be said. A comparison is

    * renamed, when the type is the same, or VARCHAR that grew;
    * renamed, when the type is a wider integer now, if its literals fit the file's type. (Other literals match
      nothing in `=` and `IN`; comparisons with them are dropped.)
    * decided, when the file lacks the column: all its values are null;
    * dropped for any other type change, because a cast may make values equal or change their order.
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
    renamed = structs.replace(part, column=written.name)
    if same_values(written.type, field.type) or _is_longer_text(written.type, field.type):
        return renamed
    if part.op in (Op.IS_NULL, Op.IS_NOT_NULL):
        # No cast turns null into a value, but some turn a value into null: a DECIMAL that does not fit.
        return renamed if part.op is Op.IS_NOT_NULL else ALWAYS
    if not _is_wider_integer(written.type, field.type):
        return ALWAYS
    limit = 2 ** (INTEGER_BITS[written.type.__class__] - 1)
    fitting = tuple(x for x in part.literals if isinstance(x, int) and -limit <= x < limit)
    if fitting == part.literals:
        return renamed
    if part.op not in (Op.EQ, Op.IN) or not all(isinstance(x, int) for x in part.literals):
        return ALWAYS
    return structs.replace(renamed, literals=fitting) if fitting else NEVER


def _of_nulls(part: Leaf) -> Predicate:
    """Evaluates a comparison on a column that is all null; NOT IN () is left open, engines differ."""
    undecided = part.op is Op.NOT_IN and not part.literals
    return ALWAYS if part.op is Op.IS_NULL or undecided else NEVER


def _is_longer_text(written: t.DataType, read: t.DataType) -> bool:
    return isinstance(written, t.VarCharType) and isinstance(read, t.VarCharType) and read.length >= written.length


def _is_wider_integer(written: t.DataType, read: t.DataType) -> bool:
    before, after = INTEGER_BITS.get(written.__class__), INTEGER_BITS.get(read.__class__)
    return before is not None and after is not None and before < after
