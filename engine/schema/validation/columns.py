"""Rules about columns: their names, the types of keys, and the types that the file formats support."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from morrow.engine.arguments import text
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.file_formats import written_format
from morrow.engine.format.schema import SYSTEM_NAMES, TableSchema
from morrow.engine.format.types import (
    MAX_LENGTH,
    ArrayType,
    BinaryType,
    BlobType,
    CharType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    VarBinaryType,
    VarCharType,
    VariantType,
    VectorType,
)
from morrow.engine.names import KEY_PREFIX
from morrow.engine.options.declared.files import CHANGELOG_FILE_FORMAT, FILE_FORMAT_PER_LEVEL
from morrow.engine.schema.validation.proposal import Proposal

WITHOUT_KEYS = (ArrayType, MapType, MultisetType, RowType, VectorType, VariantType, BlobType)
SIZED = (CharType, VarCharType, BinaryType, VarBinaryType)


def names(proposal: Proposal) -> None:
    """Checks that columns do not have the names of Paimon's own columns, nor an empty name."""
    proposal.require(bool(proposal.schema.fields), "a table has one column at least")
    for name in proposal.schema.by_name:
        proposal.require(bool(name.strip()), f"the column name {name!r} is blank")
        if name in SYSTEM_NAMES or name.startswith(KEY_PREFIX):
            raise proposal.refused(
                f"the column name {name!r} is one of Paimon's own ({', '.join(SYSTEM_NAMES)}, {KEY_PREFIX}...)"
            )


def types(proposal: Proposal) -> None:
    """Checks that types have a size, and that names inside rows are distinct."""
    for path, kind in _all_types(proposal.schema):
        text(path, f"{proposal.where}: the name of a column")
        if isinstance(kind, SIZED):
            proposal.require(1 <= kind.length <= MAX_LENGTH, f"the column {path!r} has the type {kind} of no length")
        if isinstance(kind, RowType):
            members = [field.name for field in kind.fields]
            twice = sorted({name for name in members if members.count(name) > 1})
            proposal.require(not twice, f"the rows of column {path!r} have the member {', '.join(twice)} twice")


def keys(proposal: Proposal) -> None:
    """Checks that keys exist, are not nested, and leave more than one row to a partition."""
    schema = proposal.schema
    for what, found in (("primary key", schema.primary_keys), ("partition key", schema.partition_keys)):
        proposal.require_columns(found, what)
        for name in found:
            kind = schema.by_name[name].type
            proposal.require(not isinstance(kind, WITHOUT_KEYS), f"the {what} {name!r} has the type {kind}")
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        raise proposal.refused(
            f"the primary key ({', '.join(schema.primary_keys)}) is made of partition keys only, which leaves one row "
            "to a partition; add a column to the primary key"
        )


def file_formats(proposal: Proposal) -> None:
    """Checks that every format of data files supports every type of a column."""
    given, where = proposal.given, proposal.where
    found = {proposal.options.file_format, *given.get(FILE_FORMAT_PER_LEVEL).values()}
    if proposal.keyed and (changelog := given.get(CHANGELOG_FILE_FORMAT)) is not None:
        found.add(changelog)
    for name in sorted(found):
        lacks = written_format(name, where).lacks
        assert lacks is not None  # formats that are written say which types they have
        for path, kind in _all_types(proposal.schema):
            if (reason := lacks(kind)) is not None:
                raise Unsupported(f"the type {kind} of column {path!r} in {name} files", where=where, hint=reason)


def check_cases(schema: TableSchema, where: str, before: TableSchema | None) -> None:
    """Checks that no names of columns, or of members of one row, have become equal but for their case.

    Paimon allows such names, but DuckDB and Spark cannot tell the columns apart: neither can be named any more. Pairs
    that another writer has made stay.

    Raises:
        InvalidArgument: there is such a pair which `before` does not have.
    """
    there = {} if before is None else _alike(before)
    for ids, (first, second) in _alike(schema).items():
        if ids not in there:
            raise InvalidArgument(
                f"{where}: the columns {first!r} and {second!r} differ in case alone, and SQL could name neither; "
                "rename one of them"
            )


def _alike(schema: TableSchema) -> dict[frozenset[int], tuple[str, str]]:
    """Returns the paths of the pairs of columns or members whose names differ in case alone, by the ids of the two."""
    rows = [("", schema.fields)]
    rows += [(f"{path}.", kind.fields) for path, kind in _all_types(schema) if isinstance(kind, RowType)]
    found: dict[frozenset[int], tuple[str, str]] = {}
    for parent, members in rows:
        folded: dict[str, list[DataField]] = {}
        for member in members:
            folded.setdefault(member.name.casefold(), []).append(member)
        for alike in folded.values():
            for one, other in combinations(alike, 2):
                found[frozenset((one.id, other.id))] = f"{parent}{one.name}", f"{parent}{other.name}"
    return found


def _all_types(schema: TableSchema) -> Iterator[tuple[str, DataType]]:
    for field in schema.fields:
        yield from _types_inside(field.name, field.type)


def _types_inside(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    yield path, kind
    if isinstance(kind, RowType):
        for member in kind.fields:
            yield from _types_inside(f"{path}.{member.name}", member.type)
    if isinstance(kind, MapType):
        yield from _types_inside(f"{path}.key", kind.key)
        yield from _types_inside(f"{path}.value", kind.value)
    if isinstance(kind, (ArrayType, VectorType, MultisetType)):
        yield from _types_inside(f"{path}.element", kind.element)


RULES = (names, types, keys, file_formats)
