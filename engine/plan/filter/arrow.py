"""Translation of Arrow expressions to predicates.

An expression exposes its structure only in pickled form: an IPC file whose schema metadata is the flattened tree
(``call greater, field_ref x, literal 0, end greater``; keys repeat), and whose columns are the literals and function
options. The repeated keys are read through the Arrow C data interface: the metadata is a number of pairs (int32), and
for each pair the length and the bytes of its key and of its value (native endian).

Arrow compares floats as IEEE does, where NaN is neither above nor equal to anything; predicates order NaN last. So
``f > 1`` becomes ``f > 1 and f < NaN``. Anything unknown to this module stays an Arrow expression.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.plan.filter.literals import (
    BINARY_TYPES,
    FLOAT_TYPES,
    INTEGER_BITS,
    STRING_TYPES,
    build_comparison,
    build_is_not_null,
    build_is_null,
    build_membership,
)
from morrow.engine.plan.predicate import (
    ALWAYS,
    EXACT_FLOAT_INTEGERS,
    MIRRORED,
    NEGATED,
    NEVER,
    Columns,
    Leaf,
    Op,
    Part,
    Predicate,
    Residual,
    combine_all,
    combine_any,
    limit_depth,
    shorten_text,
)

MATCH_NULLS, SKIP_NULLS = 0, 1
"""SetLookupOptions: a null in the set matches null, or is ignored."""


def split_arrow(expression: pc.Expression, columns: Columns) -> list[Part]:
    """Return the conjuncts; if one of them is not a predicate, the whole expression follows as a residual.

    Raises `InvalidArgument`, `ColumnNotFound`: see `parse_filter`.
    """
    try:
        conditions = [
            _translate_condition(node, columns) for node in _flatten_chain(parse_tree(expression), "and_kleene")
        ]
    except UnknownForm:
        conditions = [None]
    known: list[Part] = [condition for condition in conditions if condition is not None]
    if len(known) == len(conditions):
        return known
    reads = _find_columns_read(expression, columns)
    return [*known, Residual("arrow", str(expression), reads, expression, serialize_expression(expression))]


def _translate_condition(node: Tree, columns: Columns) -> Predicate | None:
    try:
        return limit_depth(_translate_rows(node, True, columns))
    except RecursionError:
        return None


def _find_columns_read(expression: pc.Expression, columns: Columns) -> frozenset[str]:
    """Return the top-level columns that the expression needs to bind."""
    schema = pa.schema([field.arrow().with_nullable(True) for field in columns.fields])
    shown = shorten_text(str(expression))
    problem = _find_binding_error(expression, schema)
    if problem is not None:
        missing = re.match(r"No match for FieldRef\.Name\((.*)\) in ", problem, re.DOTALL)
        if missing and missing[1] not in schema.names:
            columns.exact(missing[1])
        first = shorten_text(problem.partition("\n")[0])
        if problem.startswith("No match for FieldRef"):
            raise ColumnNotFound(f"filter: {shown} names a field that the table lacks: {first}")
        raise InvalidArgument(f"filter: Arrow cannot evaluate {shown}: {first}")
    if "FieldPath(" in QUOTED.sub("", str(expression)):
        raise InvalidArgument(f"filter: name the columns of {shown} instead of numbering them")
    return frozenset(
        name for i, name in enumerate(schema.names) if _find_binding_error(expression, schema.remove(i)) is not None
    )


def _find_binding_error(expression: pc.Expression, schema: pa.Schema) -> str | None:
    try:
        ds.dataset(schema.empty_table()).to_table(columns=[], filter=expression)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        return str(error)
    return None


def _flatten_chain(node: Tree, connective: str) -> Iterator[Tree]:
    """Yield the operands of a chain of ANDs or of ORs, however long."""
    left = [node]
    while left:
        node = left.pop()
        if isinstance(node, Call) and node.name == connective:
            left += reversed(node.arguments)
        else:
            yield node


def _translate_rows(node: Tree, want: bool, columns: Columns) -> Predicate | None:
    """Return the rows for which the node is `want`, neither null nor the opposite; None without an exact predicate."""
    if isinstance(node, Literal):
        known = node.scalar.type == pa.bool_() and node.scalar.is_valid
        return (ALWAYS if node.scalar.as_py() is want else NEVER) if known else None
    if isinstance(node, Field):
        column = _find_column(node, columns)
        return Leaf(column.name, Op.EQ, (want,)) if column and isinstance(column.type, t.BooleanType) else None
    if node.name in ("and_kleene", "or_kleene"):
        parts = (_translate_rows(argument, want, columns) for argument in _flatten_chain(node, node.name))
        return combine_all(parts) if (node.name == "and_kleene") is want else combine_any(parts)
    if node.name == "invert":
        return _translate_rows(node.arguments[0], not want, columns)
    if node.name in _COMPARISONS:
        return _translate_comparison(node, want, columns)
    rule = _COLUMN_CALLS.get(node.name)
    column = _find_column(node.arguments[0], columns) if len(node.arguments) == 1 else None
    return rule(column, node.options, want) if rule and column else None


def _find_column(node: Tree, columns: Columns) -> t.DataField | None:
    return columns.exact(node.path[0]) if isinstance(node, Field) and len(node.path) == 1 else None


_COMPARISONS = {
    "equal": Op.EQ,
    "not_equal": Op.NE,
    "less": Op.LT,
    "less_equal": Op.LE,
    "greater": Op.GT,
    "greater_equal": Op.GE,
}


def _translate_comparison(node: Call, want: bool, columns: Columns) -> Predicate | None:
    left, right = node.arguments
    op = _COMPARISONS[node.name]
    if isinstance(left, Literal):
        left, right, op = right, left, MIRRORED[op]
    column = _find_column(left, columns)
    if column is None or not isinstance(right, Literal):
        return None
    value = _convert_literal(right.scalar, column)
    if value is None:
        return None
    matching = build_comparison(column, op if want else NEGATED[op], value)
    if not isinstance(column.type, FLOAT_TYPES) or op not in (Op.GT, Op.GE):
        return matching
    nan = Leaf(column.name, Op.LT if want else Op.EQ, (math.nan,))
    return combine_all([matching, nan]) if want else combine_any([matching, nan])


def _translate_is_in(column: t.DataField, options: dict[str, Any], want: bool) -> Predicate | None:
    """Translate Arrow's is_in, which for null returns false, or true if null is in the set."""
    behaviour = options["null_matching_behavior"].as_py()
    if behaviour not in (MATCH_NULLS, SKIP_NULLS) or isinstance(column.type, FLOAT_TYPES):
        return None
    items = list(options["value_set"].values)
    values = [_convert_literal(item, column) for item in items if item.is_valid]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    null_matches = behaviour == MATCH_NULLS and len(values) < len(items)
    found = build_membership(column, known, negated=not want)
    return combine_any([found, build_is_null(column)]) if null_matches is want else found


def _translate_null_test(column: t.DataField, options: dict[str, Any], want: bool) -> Predicate | None:
    nan_is_null = options["nan_is_null"].as_py() if "nan_is_null" in options else False
    if nan_is_null and isinstance(column.type, FLOAT_TYPES):
        return None
    return build_is_null(column) if want else build_is_not_null(column)


def _translate_prefix(column: t.DataField, options: dict[str, Any], want: bool) -> Predicate | None:
    if not isinstance(column.type, STRING_TYPES) or options["ignore_case"].as_py():
        return None
    return Leaf(column.name, Op.STARTS_WITH if want else Op.NOT_STARTS_WITH, (options["pattern"].as_py(),))


_COLUMN_CALLS: dict[str, Callable[[t.DataField, dict[str, Any], bool], Predicate | None]] = {
    "is_in": _translate_is_in,
    "is_null": _translate_null_test,
    "is_valid": lambda column, _options, want: build_is_not_null(column) if want else build_is_null(column),
    "starts_with": _translate_prefix,
}


def _convert_literal(scalar: pa.Scalar, column: t.DataField) -> Any:
    """Return the literal if Arrow compares it with the column without rounding either, otherwise None.

    Raises `InvalidArgument`: the literal is not a value of its type, such as text that is not in UTF-8.
    """
    kind = scalar.type
    nanos = (pa.types.is_timestamp(kind) or pa.types.is_time(kind)) and kind.unit == "ns"
    if not scalar.is_valid or nanos:
        return None
    try:
        scalar.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"filter: the literal for column {column.name!r} is not {kind}: {error}") from error
    try:
        value: Any = scalar.as_py()
    except (OverflowError, ValueError):  # Python cannot represent the date; Arrow compares it
        return None
    if isinstance(column.type, FLOAT_TYPES) and isinstance(value, int) and abs(value) <= EXACT_FLOAT_INTEGERS:
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    expected = next((python for types, python in _PYTHON_TYPES if isinstance(column.type, types)), None)
    return value if type(value) is expected else None


_PYTHON_TYPES: tuple[tuple[type | tuple[type, ...], type], ...] = (
    (tuple(INTEGER_BITS), int),
    (FLOAT_TYPES, float),
    (STRING_TYPES, str),
    (BINARY_TYPES, bytes),
    (t.BooleanType, bool),
    (t.DecimalType, Decimal),
    (t.DateType, dt.date),
    (t.TimeType, dt.time),
    ((t.TimestampType, t.LocalZonedTimestampType), dt.datetime),
)

C_SCHEMA_SIZE = 72
C_SCHEMA_METADATA_OFFSET = 16
QUOTED = re.compile(r'"(\\.|[^"\\])*"')


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[Tree, ...]
    options: dict[str, Any]


@dataclass(frozen=True)
class Field:
    path: tuple[str, ...]


@dataclass(frozen=True)
class Literal:
    scalar: pa.Scalar


Tree: TypeAlias = Call | Field | Literal


class UnknownForm(Exception):
    """A serialized expression with a part unknown to this module."""


def serialize_expression(expression: pc.Expression) -> bytes | None:
    try:
        (serialized, *_) = expression.__reduce__()[1]
        return bytes(serialized)
    except (pa.ArrowException, ValueError, TypeError):
        return None


def parse_tree(expression: pc.Expression) -> Tree:
    try:
        (serialized, *_) = expression.__reduce__()[1]
        values = pa.ipc.open_file(serialized).read_all()
        items = iter(_read_metadata_items(values.schema))
        return _build_node(*next(items), items, values)
    except (pa.ArrowException, StopIteration, ValueError, TypeError, IndexError) as error:
        raise UnknownForm from error


def _read_metadata_items(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return the schema's metadata in order, with its repeated keys."""
    exported = ctypes.create_string_buffer(C_SCHEMA_SIZE)
    schema._export_to_c(ctypes.addressof(exported))
    try:
        start = ctypes.c_void_p.from_buffer(exported, C_SCHEMA_METADATA_OFFSET).value
        return list(_read_pairs(start)) if start else []
    finally:
        pa.Schema._import_from_c(ctypes.addressof(exported))  # reimports the export, which releases it


def _read_pairs(address: int) -> Iterator[tuple[str, str]]:
    def text() -> str:
        nonlocal address
        (length,) = struct.unpack("=i", ctypes.string_at(address, 4))
        value = ctypes.string_at(address + 4, length)
        address += 4 + length
        return value.decode()

    (count,) = struct.unpack("=i", ctypes.string_at(address, 4))
    address += 4
    for _ in range(count):
        yield text(), text()


def _build_node(key: str, value: str, items: Iterator[tuple[str, str]], values: pa.Table) -> Tree:
    """Return the tree, built on an explicit stack: a chain of thousands of ORs is nested that deeply."""
    open_: list[tuple[str, list[Tree], dict[str, Any]]] = []
    while True:
        if key == "call":
            open_.append((value, [], {}))
        elif key == "options":
            names = [member.name for member in values.schema.field(int(value)).type]
            options = {name: values.column(int(value))[0][name] for name in names}
            open_[-1][2].update(options)
        else:
            node = _build_call(*open_.pop()) if key == "end" else _build_leaf(key, value, items, values)
            if not open_:
                return node
            open_[-1][1].append(node)
        key, value = next(items)


def _build_call(name: str, arguments: list[Tree], options: dict[str, Any]) -> Tree:
    return Call(name, tuple(arguments), options)


def _build_leaf(key: str, value: str, items: Iterator[tuple[str, str]], values: pa.Table) -> Tree:
    if key == "field_ref":
        return Field((value,))
    if key == "nested_field_ref":
        return Field(tuple(name for _, name in (next(items) for _ in range(int(value)))))
    if key == "literal":
        return Literal(values.column(int(value))[0])
    raise UnknownForm
