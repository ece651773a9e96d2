"""Directives in column comments, by which SQL without types BLOB and VECTOR declares them.

``embed ARRAY<FLOAT> COMMENT '__VECTOR_FIELD;128; product embedding'`` is a ``VECTOR<FLOAT, 128>`` with the comment
``product embedding``. The option ``vector-field`` lists such columns. A column that ``vector-field`` names without a
directive has its length in ``field.embed.vector-dim``. ``image BYTES COMMENT '__BLOB_FIELD; picture'``
is a BLOB that ``blob-field`` lists; ``__BLOB_DESCRIPTOR_FIELD`` and ``__BLOB_VIEW_FIELD`` have options of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from morrow.engine.errors import InvalidArgument
from morrow.engine.format import types as t
from morrow.engine.format.blobs import get_blob_member
from morrow.engine.options.declarations import Options, parse_names
from morrow.engine.options.declared.features import (
    BLOB_DESCRIPTOR_FIELD,
    BLOB_FIELD,
    BLOB_VIEW_FIELD,
    VECTOR_FIELD,
)
from morrow.engine.schema.sql_columns import Column
from morrow.engine.structs import replace

VECTOR_LENGTH = "field.{}.vector-dim"
"""The option with the length of a column of vectors."""
VECTOR_DIRECTIVE = "__VECTOR_FIELD"
PREFIX = "__VECTOR"
BLOB_PREFIX = "__BLOB"
BLOB_DIRECTIVES = {
    "__BLOB_FIELD": BLOB_FIELD,
    "__BLOB_DESCRIPTOR_FIELD": BLOB_DESCRIPTOR_FIELD,
    "__BLOB_VIEW_FIELD": BLOB_VIEW_FIELD,
}
"""Directive -> the option that lists its columns."""


def apply_directive(column: Column, options: Mapping[str, str], where: str) -> tuple[Column, dict[str, str]]:
    """Return a column as the directive in its comment declares it, and the options of its table.

    Raises `InvalidArgument`: the directive has no length, or the column is not an ARRAY.
    """
    comment = (column.comment or "").strip()
    if comment.startswith(BLOB_PREFIX):
        return _apply_blob_directive(column, comment, options, where)
    if not comment.startswith(PREFIX):
        return column, dict(options)
    name, *rest = (part.strip() for part in comment.split(";", 2))
    if name != VECTOR_DIRECTIVE or not rest or not rest[0].isdigit() or not int(rest[0]):
        raise InvalidArgument(
            f"{where}: the comment {comment!r} of column {column.name!r} is not a directive; write "
            f"'{VECTOR_DIRECTIVE};128; comment' for vectors of 128 elements"
        )
    if not isinstance(column.type, t.ArrayType):
        raise InvalidArgument(
            f"{where}: the column {column.name!r} has the directive {VECTOR_DIRECTIVE} and is {column.type}; declare "
            "an ARRAY"
        )
    kind = t.VectorType(column.type.nullable, column.type.element, int(rest[0]))
    listed = [*parse_names(options.get(VECTOR_FIELD.key)), column.name]
    made = replace(column, type=kind, comment=rest[1] or None if len(rest) > 1 else None)
    return made, {**options, VECTOR_FIELD.key: ",".join(listed)}


def _apply_blob_directive(
    column: Column, comment: str, options: Mapping[str, str], where: str
) -> tuple[Column, dict[str, str]]:
    name, _, rest = comment.partition(";")
    option = BLOB_DIRECTIVES.get(name.strip())
    if option is None:
        raise InvalidArgument(
            f"{where}: the comment {comment!r} of column {column.name!r} is not a directive; write one of "
            f"{', '.join(BLOB_DIRECTIVES)}"
        )
    made = replace(column, type=to_blob_type(column.type, f"{where}: the column {column.name!r}"))
    listed = [*parse_names(options.get(option.key)), column.name]
    return replace(made, comment=rest.strip() or None), {**options, option.key: ",".join(dict.fromkeys(listed))}


def to_blob_type(kind: t.DataType, where: str) -> t.DataType:
    """Return the type with blobs instead of bytes: of a column, or of the members of an ARRAY or MAP.

    Raises `InvalidArgument`: another type.
    """
    member = get_blob_member(kind)
    if not isinstance(member, (t.BinaryType, t.VarBinaryType, t.BlobType)):
        raise InvalidArgument(f"{where} is {kind} and cannot be a BLOB; declare BYTES, ARRAY<BYTES> or MAP<K, BYTES>")
    blob = t.BlobType(member.nullable)
    if isinstance(kind, t.ArrayType):
        return replace(kind, element=blob)
    return replace(kind, value=blob) if isinstance(kind, t.MapType) else blob


def apply_blob_options(columns: Sequence[Column], options: Mapping[str, str], where: str) -> tuple[Column, ...]:
    """Return the columns of a new table, in which the columns of ``blob-field`` and similar options are BLOBs."""
    named = {name for option in BLOB_DIRECTIVES.values() for name in Options(options, where).get(option)}
    return tuple(
        replace(column, type=to_blob_type(column.type, f"{where}: the column {column.name!r}"))
        if column.name in named
        else column
        for column in columns
    )


def apply_vector_options(columns: Sequence[Column], options: Mapping[str, str], where: str) -> tuple[Column, ...]:
    """Return the columns of a new table, in which the arrays that ``vector-field`` names are vectors.

    Raises `InvalidArgument`: a named column is not an array, or its length is missing.
    """
    named = Options(options, where).get(VECTOR_FIELD)
    return tuple(_to_vector(column, options, where) if column.name in named else column for column in columns)


def _to_vector(column: Column, options: Mapping[str, str], where: str) -> Column:
    kind, key = column.type, VECTOR_LENGTH.format(column.name)
    if isinstance(kind, t.VectorType):
        return column
    if not isinstance(kind, t.ArrayType):
        raise InvalidArgument(
            f"{where}: The type of vector field {column.name!r} must be array, but is {str(kind).lower()}; declare it "
            "as an ARRAY of numbers, or as VECTOR<t, n>"
        )
    length = options.get(key, "").strip()
    if not length.isdecimal() or not int(length):
        if key not in options:
            problem = f"When setting {VECTOR_FIELD.key!r}, you must also set {key!r}"
        else:
            problem = f"Expected an integer for {key!r}, but got{f': {length}' if length else ' empty value'}"
        raise InvalidArgument(f"{where}: {problem}. It is the length of vectors; or declare the column as VECTOR<t, n>")
    return replace(column, type=t.VectorType(kind.nullable, kind.element, int(length)))


def forget_column(options: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the options of a table without the column in ``vector-field``, ``blob-field`` and similar options."""
    found = dict(options)
    for key in (key for option in (VECTOR_FIELD, *BLOB_DIRECTIVES.values()) for key in option.keys):
        names = parse_names(found.pop(key, None))
        if left := ",".join(each for each in names if each != name):
            found[key] = left
    found.pop(VECTOR_LENGTH.format(name), None)
    return found
