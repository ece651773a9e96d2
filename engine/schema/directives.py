"""Directives in column comments, by which SQL without a type VECTOR declares one.

``embed ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;128; product embedding'`` is a ``VECTOR<FLOAT, 128>`` with the comment
``product embedding``. The option ``vector-field`` lists such columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.types import ArrayType, VectorType
from morrow.engine.options.declarations import parse_names
from morrow.engine.options.declared.features import VECTOR_FIELD
from morrow.engine.schema.sql_columns import Column
from morrow.engine.structs import replace

VECTOR_DIRECTIVE = "__VECTOR_FIELD"
PREFIX = "__VECTOR"


def apply_directive(column: Column, options: Mapping[str, str], where: str) -> tuple[Column, dict[str, str]]:
    """Return a column as the directive in its comment declares it, and the options of its table.

    Raises:
        InvalidArgument: the directive has no length, or the column is not an ARRAY.
    """
    comment = (column.comment or "").strip()
    if not comment.startswith(PREFIX):
        return column, dict(options)
    name, *rest = (part.strip() for part in comment.split(";", 2))
    if name != VECTOR_DIRECTIVE or not rest or not rest[0].isdigit() or not int(rest[0]):
        raise InvalidArgument(
            f"{where}: the comment {comment!r} of column {column.name!r} is not a directive; write "
            f"'{VECTOR_DIRECTIVE};128; comment' for vectors of 128 elements"
        )
    if not isinstance(column.type, ArrayType):
        raise InvalidArgument(
            f"{where}: the column {column.name!r} has the directive {VECTOR_DIRECTIVE} and is {column.type}; declare "
            "an ARRAY"
        )
    kind = VectorType(column.type.nullable, column.type.element, int(rest[0]))
    listed = [*parse_names(options.get(VECTOR_FIELD.key)), column.name]
    made = replace(column, type=kind, comment=rest[1] or None if len(rest) > 1 else None)
    return made, {**options, VECTOR_FIELD.key: ",".join(listed)}


def forget_column(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the options of a table without the column in ``vector-field``."""
    names = parse_names(options.get(VECTOR_FIELD.key))
    if name not in names:
        return dict(options)
    left = ",".join(each for each in names if each != name)
    return {key: value for key, value in options.items() if key != VECTOR_FIELD.key} | (
        {VECTOR_FIELD.key: left} if left else {}
    )
