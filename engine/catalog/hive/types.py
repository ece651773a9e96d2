"""Paimon's types as the metastore names them, and back, as Java's `HiveTypeUtils` has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BlobType,
    BooleanType,
    CharType,
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
    VariantType,
    VectorType,
)

MOST_CHAR, MOST_VARCHAR = 255, 65_535
"""The longest CHAR and VARCHAR of Hive; longer ones are its ``string``."""
TIMESTAMP_PRECISION = 6
ZONED = "timestamp with local time zone"
"""A type of Hive 3 and newer."""
VARIANT = "struct<value:binary,metadata:binary>"

_NAMES: dict[type[DataType], str] = {
    BooleanType: "boolean",
    TinyIntType: "tinyint",
    SmallIntType: "smallint",
    IntType: "int",
    BigIntType: "bigint",
    FloatType: "float",
    DoubleType: "double",
    BinaryType: "binary",
    VarBinaryType: "binary",
    BlobType: "binary",
    DateType: "date",
    TimeType: "string",
    TimestampType: "timestamp",
    LocalZonedTimestampType: ZONED,
    VariantType: VARIANT,
}
_NESTED: dict[type[DataType], Callable[[Any, Callable[[DataType], str]], str]] = {
    DecimalType: lambda kind, _: f"decimal({kind.precision},{kind.scale})",
    CharType: lambda kind, _: f"char({kind.length})" if kind.length <= MOST_CHAR else "string",
    VarCharType: lambda kind, _: f"varchar({kind.length})" if kind.length <= MOST_VARCHAR else "string",
    ArrayType: lambda kind, name: f"array<{name(kind.element)}>",
    VectorType: lambda kind, name: f"array<{name(kind.element)}>",
    MultisetType: lambda kind, name: f"map<{name(kind.element)},int>",
    MapType: lambda kind, name: f"map<{name(kind.key)},{name(kind.value)}>",
    RowType: lambda kind, name: f"struct<{','.join(f'{each.name}:{name(each.type)}' for each in kind.fields)}>",
}
_PLAIN: dict[str, DataType] = {
    "boolean": BooleanType(),
    "tinyint": TinyIntType(),
    "smallint": SmallIntType(),
    "int": IntType(),
    "bigint": BigIntType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal": DecimalType(precision=10, scale=0),
    "string": VarCharType(),
    "binary": VarBinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(precision=TIMESTAMP_PRECISION),
    ZONED: LocalZonedTimestampType(precision=TIMESTAMP_PRECISION),
}


def hive_type(kind: DataType, *, zoned: bool = True) -> str:
    """Returns the name that the metastore has for a type; without `zoned` times with a time zone are plain times.

    Raises:
        Unsupported: a type that Hive does not have.
    """
    name = _NAMES.get(type(kind))
    if name is not None:
        return _NAMES[TimestampType] if name == ZONED and not zoned else name
    spelt = _NESTED.get(type(kind))
    if spelt is None:
        raise Unsupported(f"the type {kind} in Hive's metastore", hint="leave the column out, or use another catalog")
    return spelt(kind, partial(hive_type, zoned=zoned))


def paimon_type(name: str, next_id: Callable[[], int] | None = None) -> DataType:
    """Returns the type that the metastore's name says; members of structs get the ids of `next_id`.

    Raises:
        Unsupported: a type that Paimon does not have, such as ``uniontype``.
    """
    counter = iter(range(1 << 30))
    kind, rest = _parsed(name, next_id or (lambda: next(counter)), name)
    if rest.strip():
        raise _unknown(name)
    return kind


def _parsed(text: str, next_id: Callable[[], int], whole: str) -> tuple[DataType, str]:
    text = text.lstrip()
    end = next((at for at, char in enumerate(text) if char in "<>(),"), len(text))
    word, rest = text[:end].strip().lower(), text[end:]
    if word in ("array", "map", "struct") and rest.startswith("<"):
        return _nested(word, rest[1:], next_id, whole)
    if rest.startswith("(") and word in ("char", "varchar", "decimal"):
        inside, _, rest = rest[1:].partition(")")
        sizes = [part.strip() for part in inside.split(",")]
        if all(size.isdigit() for size in sizes):
            numbers = [int(size) for size in sizes]
            if word == "decimal":
                return DecimalType(precision=numbers[0], scale=numbers[1] if len(numbers) > 1 else 0), rest
            return (CharType if word == "char" else VarCharType)(length=numbers[0]), rest
    elif word in _PLAIN:
        return _PLAIN[word], rest
    raise _unknown(whole)


def _nested(word: str, rest: str, next_id: Callable[[], int], whole: str) -> tuple[DataType, str]:
    parts: list[DataType] = []
    fields: list[DataField] = []
    while True:
        name = ""
        if word == "struct":
            name, _, rest = rest.partition(":")
        number = next_id() if word == "struct" else 0
        kind, rest = _parsed(rest, next_id, whole)
        rest = rest.lstrip()
        parts.append(kind)
        fields.append(DataField(number, name.strip(), kind))
        if not rest or rest[0] not in ",>":
            raise _unknown(whole)
        done, rest = rest[0] == ">", rest[1:]
        if done:
            break
    if word == "struct":
        return RowType(fields=tuple(fields)), rest
    if len(parts) != (1 if word == "array" else 2):
        raise _unknown(whole)
    return (ArrayType(element=parts[0]) if word == "array" else MapType(key=parts[0], value=parts[1])), rest


def _unknown(name: str) -> Unsupported:
    return Unsupported(f"the type {name!r} of Hive's metastore", hint="Paimon has no such type")
