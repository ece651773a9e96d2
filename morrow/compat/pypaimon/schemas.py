"""pypaimon's data types, schemas, schema changes, identifiers and rows, and their conversion to Morrow's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as is_

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import ROW_ID_FIELD, SEQUENCE_NUMBER_FIELD, find_member
from morrow.engine.options import Options
from morrow.engine.options.declarations import ChangelogProducer
from morrow.engine.options.declared.merging import CHANGELOG_PRODUCER
from morrow.engine.options.declared.table import PRIMARY_KEY_NULLABLE
from morrow.engine.redaction import format_columns
from morrow.engine.schema import schema_changes as changes
from morrow.engine.schema.columns import assign_ids, read_type
from morrow.engine.schema.sql_columns import Column
from morrow.engine.structs import replace
from morrow.scans.nested_columns import Path, make_member_field

if TYPE_CHECKING:
    from morrow.engine.format.schema import TableSchema as StoredSchema

BRANCH_PREFIX = "branch_"
MAIN_BRANCH = "main"
VECTOR_ELEMENTS = ("BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
UNKNOWN_DATABASE = "unknown"
DESCRIPTION = b"description"


class DataType:
    """The base class of all types. Equality includes nullability."""

    nullable: bool

    def to_dict(self) -> Any:
        """Return the JSON of the type in schema files."""
        node = t.to_json(to_morrow_type(self))
        return {**node, "nullable": self.nullable} if isinstance(node, dict) else node

    @classmethod
    def from_dict(cls, data: Any) -> DataType:
        """Read a type from the JSON of schema files."""
        return to_pypaimon_type(t.from_json(data))

    def __str__(self) -> str:
        return f"{self._text()}{'' if self.nullable else ' NOT NULL'}"

    def _text(self) -> str:
        """Return the type without its nullability, as pypaimon writes it."""
        raise NotImplementedError


@dataclass(unsafe_hash=True)
class AtomicType(DataType):
    """A type without members, such as ``AtomicType("DECIMAL(10, 2)")``."""

    type: str
    nullable: bool = True

    def _text(self) -> str:
        return self.type


@dataclass(unsafe_hash=True)
class ArrayType(DataType):
    """A list of elements."""

    nullable: bool
    element: DataType

    def _text(self) -> str:
        return f"ARRAY<{self.element}>"


@dataclass(unsafe_hash=True)
class VectorType(DataType):
    """A list of a fixed number of elements."""

    nullable: bool
    element: DataType
    length: int

    def __post_init__(self) -> None:
        """Check the type. Raises `InvalidArgument` for a vector of other elements than numbers and booleans."""
        if not isinstance(self.element, AtomicType) or to_morrow_type(self.element).keyword not in VECTOR_ELEMENTS:
            raise InvalidArgument(f"a vector has elements of one of {', '.join(VECTOR_ELEMENTS)}, not {self.element}")
        if self.length < 1:
            raise InvalidArgument(f"a vector has at least one element, not {self.length}")

    def _text(self) -> str:
        return f"VECTOR<{self.element}, {self.length}>"


@dataclass(unsafe_hash=True)
class MultisetType(DataType):
    """A multiset of elements."""

    nullable: bool
    element: DataType

    def _text(self) -> str:
        return f"MULTISET<{self.element}>"


@dataclass(unsafe_hash=True)
class MapType(DataType):
    """A map from keys to values."""

    nullable: bool
    key: DataType
    value: DataType

    def _text(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(unsafe_hash=True)
class RowType(DataType):
    """A row of named members."""

    nullable: bool
    fields: tuple[DataField, ...]

    def _text(self) -> str:
        comments = (f" COMMENT {each.description}" if each.description else "" for each in self.fields)
        return f"ROW<{', '.join(f'{each.name}: {each.type}{told}' for each, told in zip(self.fields, comments))}>"

    def __post_init__(self) -> None:
        self.fields = tuple(self.fields)


@dataclass(unsafe_hash=True)
class DataField:
    """A column: its id, name, type, description and default value."""

    id: int
    name: str
    type: DataType
    description: str | None = None
    default_value: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON of the column in schema files."""
        return t.to_json_field(to_morrow_field(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DataField:
        """Read a column from the JSON of schema files."""
        return to_pypaimon_field(t.from_json_field(data))


def to_morrow_type(kind: DataType) -> t.DataType:
    """Convert a type. Raises `Unsupported` for a text that is not a type."""
    if isinstance(kind, AtomicType):
        return t.parse_atomic(kind.type).with_nullable(kind.nullable)
    if isinstance(kind, RowType):
        return t.RowType(kind.nullable, tuple(map(to_morrow_field, kind.fields)))
    if isinstance(kind, MapType):
        return t.MapType(kind.nullable, to_morrow_type(kind.key), to_morrow_type(kind.value))
    if isinstance(kind, VectorType):
        return t.VectorType(kind.nullable, to_morrow_type(kind.element), kind.length)
    if isinstance(kind, MultisetType):
        return t.MultisetType(kind.nullable, to_morrow_type(kind.element))
    if isinstance(kind, ArrayType):
        return t.ArrayType(kind.nullable, to_morrow_type(kind.element))
    raise InvalidArgument(f"{kind!r} is not a type; give an AtomicType, ArrayType, MapType or RowType")


def to_morrow_field(column: DataField) -> t.DataField:
    """Convert a column."""
    kind = to_morrow_type(column.type)
    return t.DataField(column.id, column.name, kind, column.description, column.default_value)


def to_pypaimon_type(kind: t.DataType) -> DataType:
    """Convert a type of Morrow."""
    if isinstance(kind, t.RowType):
        return RowType(kind.nullable, tuple(map(to_pypaimon_field, kind.fields)))
    if isinstance(kind, t.MapType):
        return MapType(kind.nullable, to_pypaimon_type(kind.key), to_pypaimon_type(kind.value))
    if isinstance(kind, t.VectorType):
        return VectorType(kind.nullable, to_pypaimon_type(kind.element), kind.length)
    if isinstance(kind, t.MultisetType):
        return MultisetType(kind.nullable, to_pypaimon_type(kind.element))
    if isinstance(kind, t.ArrayType):
        return ArrayType(kind.nullable, to_pypaimon_type(kind.element))
    return AtomicType(kind.text(), kind.nullable)


def to_pypaimon_field(column: t.DataField) -> DataField:
    """Convert a column of Morrow."""
    kind = to_pypaimon_type(column.type)
    return DataField(column.id, column.name, kind, column.description, column.default_value)


class SpecialFields:
    """Columns that tables with row tracking have besides their own."""

    ROW_ID = to_pypaimon_field(ROW_ID_FIELD)
    SEQUENCE_NUMBER = to_pypaimon_field(SEQUENCE_NUMBER_FIELD)


class PyarrowFieldParser:
    """Conversions between columns and Arrow fields."""

    @staticmethod
    def to_paimon_type(pa_type: pa.DataType, nullable: bool) -> DataType:
        """Convert an Arrow type as pypaimon does: large binary is BLOB, a list of fixed size is VECTOR."""
        return to_pypaimon_type(_read_arrow_type(pa_type, "").with_nullable(nullable))

    @staticmethod
    def to_paimon_schema(pa_schema: pa.Schema) -> list[DataField]:
        """Convert an Arrow schema to columns with ids. Descriptions are the field metadata ``description``."""
        columns = [
            Column(each.name, _read_arrow_type(each.type, each.name).with_nullable(each.nullable), _describe(each))
            for each in pa_schema
        ]
        return list(map(to_pypaimon_field, assign_ids(columns)[0]))

    @staticmethod
    def from_paimon_type(data_type: DataType) -> pa.DataType:
        """Convert a type to Arrow's."""
        return to_morrow_type(data_type).arrow()

    @staticmethod
    def from_paimon_schema(data_fields: Sequence[DataField]) -> pa.Schema:
        """Convert columns to an Arrow schema."""
        return t.to_arrow_schema([to_morrow_field(each) for each in data_fields])


def _describe(column: pa.Field) -> str | None:
    text = (column.metadata or {}).get(DESCRIPTION)
    return None if text is None else text.decode()


def _read_arrow_type(kind: pa.DataType, name: str) -> t.DataType:
    """Convert an Arrow type, in which large binary and lists of fixed size have pypaimon's meaning."""
    if is_.is_large_binary(kind):
        return t.BlobType()
    if is_.is_fixed_size_list(kind):
        return t.VectorType(True, _read_member(kind.value_field).type, kind.list_size)
    if is_.is_list(kind) or is_.is_large_list(kind):
        return t.ArrayType(True, _read_member(kind.value_field).type)
    if is_.is_map(kind):
        return t.MapType(True, _read_member(kind.key_field).type, _read_member(kind.item_field).type)
    if kind == t.VariantType().arrow():
        return t.VariantType()
    if is_.is_struct(kind):
        return t.RowType(True, tuple(map(_read_member, kind)))
    return read_type(kind, name)


def _read_member(member: pa.Field) -> t.DataField:
    return t.DataField(0, member.name, _read_arrow_type(member.type, member.name).with_nullable(member.nullable))


@dataclass
class Schema:
    """The description of a new table: its columns, keys, options and comment."""

    fields: list[DataField] = field(default_factory=list)
    partition_keys: list[str] = field(default_factory=list)
    primary_keys: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    comment: str | None = None

    def __post_init__(self) -> None:
        self.partition_keys, self.primary_keys = list(self.partition_keys or ()), list(self.primary_keys or ())
        self.options = dict(self.options or {})
        self.fields = list(self.fields or ())
        given = Options(self.options)
        for each in self.fields:
            if each.name in self.primary_keys:
                each.type.nullable = given.get(PRIMARY_KEY_NULLABLE)
        if given.get(CHANGELOG_PRODUCER) is not ChangelogProducer.NONE and not self.primary_keys:
            raise InvalidArgument(f"{CHANGELOG_PRODUCER} needs a table with a primary key; give primary_keys")

    @staticmethod
    def from_pyarrow_schema(
        pa_schema: pa.Schema,
        partition_keys: Sequence[str] | None = None,
        primary_keys: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> Schema:
        """Describe a table with the columns of an Arrow schema.

        Raises:
            InvalidArgument: an Arrow type that no Paimon type holds without loss.
        """
        fields = PyarrowFieldParser.to_paimon_schema(pa_schema)
        keys = list(partition_keys or ()), list(primary_keys or ())
        return Schema(fields, *keys, dict(options or {}), comment)

    def to_columns(self) -> list[t.DataField]:
        """Return the columns in Morrow's types."""
        return list(map(to_morrow_field, self.fields))


@dataclass(frozen=True)
class TableSchema:
    """A version of a table's schema, as pypaimon names its members."""

    stored: StoredSchema

    @property
    def id(self) -> int:
        return self.stored.id

    @property
    def fields(self) -> list[DataField]:
        return list(map(to_pypaimon_field, self.stored.fields))

    @property
    def partition_keys(self) -> list[str]:
        return list(self.stored.partition_keys)

    @property
    def primary_keys(self) -> list[str]:
        return list(self.stored.primary_keys)

    @property
    def options(self) -> dict[str, str]:
        return dict(self.stored.options)

    @property
    def comment(self) -> str | None:
        return self.stored.comment

    @property
    def highest_field_id(self) -> int:
        return self.stored.highest_field_id

    @property
    def time_millis(self) -> int | None:
        return self.stored.time_millis

    def to_schema(self) -> Schema:
        """Return the description of a new table with the same columns, keys and options."""
        return Schema(self.fields, self.partition_keys, self.primary_keys, self.options, self.comment)


class MoveType(Enum):
    """The position of a moved column."""

    FIRST = "FIRST"
    AFTER = "AFTER"
    BEFORE = "BEFORE"
    LAST = "LAST"


@dataclass(frozen=True)
class Move:
    """The position of a column relative to another one."""

    field_name: str
    reference_field_name: str | None
    type: MoveType

    @staticmethod
    def first(field_name: str) -> Move:
        return Move(field_name, None, MoveType.FIRST)

    @staticmethod
    def after(field_name: str, reference_field_name: str) -> Move:
        return Move(field_name, reference_field_name, MoveType.AFTER)

    @staticmethod
    def before(field_name: str, reference_field_name: str) -> Move:
        return Move(field_name, reference_field_name, MoveType.BEFORE)

    @staticmethod
    def last(field_name: str) -> Move:
        return Move(field_name, None, MoveType.LAST)

    def to_position(self) -> changes.Position:
        """Return the position in Morrow's terms."""
        return changes.Position(changes.Place(self.type.value.lower()), self.reference_field_name)


def _path(name: str | Sequence[str]) -> changes.Path:
    return (name,) if isinstance(name, str) else tuple(name)


class SchemaChange:
    """The changes of `Catalog.alter_table`. Each method returns a change of Morrow."""

    @staticmethod
    def set_option(key: str, value: object) -> changes.SchemaChange:
        return changes.SetOption(key, str(value))

    @staticmethod
    def remove_option(key: str) -> changes.SchemaChange:
        return changes.RemoveOption(key)

    @staticmethod
    def update_comment(comment: str | None) -> changes.SchemaChange:
        return changes.SetTableComment(comment)

    @staticmethod
    def add_column(
        field_name: str | Sequence[str], data_type: DataType, comment: str | None = None, move: Move | None = None
    ) -> changes.SchemaChange:
        position = None if move is None else move.to_position()
        return changes.AddColumn(_path(field_name), to_morrow_type(data_type), comment, position)

    @staticmethod
    def rename_column(field_name: str | Sequence[str], new_name: str) -> changes.SchemaChange:
        return changes.RenameColumn(_path(field_name), new_name)

    @staticmethod
    def drop_column(field_name: str | Sequence[str]) -> changes.SchemaChange:
        return changes.DropColumn(_path(field_name))

    @staticmethod
    def update_column_type(
        field_name: str | Sequence[str], new_data_type: DataType, keep_nullability: bool = False
    ) -> changes.SchemaChange:
        """Change a type as pypaimon does, which does not check whether stored values fit."""
        return changes.SetType(_path(field_name), to_morrow_type(new_data_type), keep_nullability, lossy=True)

    @staticmethod
    def update_column_nullability(field_name: str | Sequence[str], new_nullability: bool) -> changes.SchemaChange:
        return changes.SetNullable(_path(field_name), new_nullability)

    @staticmethod
    def update_column_comment(field_name: str | Sequence[str], comment: str) -> changes.SchemaChange:
        return changes.SetComment(_path(field_name), comment)

    @staticmethod
    def update_column_default_value(field_names: str | Sequence[str], default_value: str) -> changes.SchemaChange:
        return changes.SetDefault(_path(field_names), default_value)

    @staticmethod
    def update_column_position(move: Move) -> changes.SchemaChange:
        return changes.MoveColumn(_path(move.field_name), move.to_position())


@dataclass(unsafe_hash=True)
class Identifier:
    """The name of a table: ``database.table``, with a branch or a system table after ``$`` in its object name."""

    database: str
    object: str

    def __init__(self, database: str, object: str, branch: str | None = None, system_table: str | None = None) -> None:
        marked = branch is not None and branch.lower() != MAIN_BRANCH
        parts = [object, *([f"{BRANCH_PREFIX}{branch}"] if marked else []), *([system_table] if system_table else [])]
        self.database, self.object = database, "$".join(parts)

    @classmethod
    def create(
        cls, database: str, table: str, branch: str | None = None, system_table: str | None = None
    ) -> Identifier:
        """Return the identifier of these parts."""
        return cls(database, table, branch, system_table)

    @classmethod
    def from_string(cls, full_name: str) -> Identifier:
        """Parse ``database.table``, either part may be in backticks.

        Raises:
            InvalidArgument: not such a name.
        """
        parts = _split_name(full_name or "")
        if len(parts) != 2 or not all(parts):
            raise InvalidArgument(f"{full_name!r} is not a table name; write 'database.table'")
        return cls(*parts)

    @classmethod
    def of(cls, name: str | Identifier) -> Identifier:
        """Return an identifier as it is, and parse text."""
        return name if isinstance(name, Identifier) else cls.from_string(name)

    def _parts(self) -> tuple[str, str | None, str | None]:
        table, *marks = self.object.split("$")
        branch = marks.pop(0).removeprefix(BRANCH_PREFIX) if marks and marks[0].startswith(BRANCH_PREFIX) else None
        if len(marks) > 1:
            raise InvalidArgument(f"{self.object!r} names more than one system table; write 'table$branch_x$files'")
        return table, branch, marks[0] if marks else None

    def get_full_name(self) -> str:
        return self.object if self.database == UNKNOWN_DATABASE else f"{self.database}.{self.object}"

    def get_database_name(self) -> str:
        return self.database

    def get_table_name(self) -> str:
        return self._parts()[0]

    def get_object_name(self) -> str:
        return self.object

    def get_branch_name(self) -> str | None:
        return self._parts()[1]

    def get_branch_name_or_default(self) -> str:
        return self.get_branch_name() or MAIN_BRANCH

    def get_system_table_name(self) -> str | None:
        return self._parts()[2]

    def is_system_table(self) -> bool:
        return self.get_system_table_name() is not None

    @property
    def branch(self) -> str | None:
        return self.get_branch_name()

    @branch.setter
    def branch(self, value: str | None) -> None:
        self.object = Identifier(self.database, self.get_table_name(), value, self.get_system_table_name()).object

    @property
    def name(self) -> str:
        """The name of the table itself, without branch and system table, as Morrow takes it."""
        return f"{self.database}.{self.get_table_name()}"


def _split_name(text: str) -> list[str]:
    """Split a name at its first dot outside of backticks, which are dropped."""
    quoted = text.split("`")
    if len(quoted) == 1:
        return text.split(".", 1)
    if len(quoted) % 2 == 0:
        return []
    marked = "`".join(part if n % 2 else part.replace(".", "\0") for n, part in enumerate(quoted))
    return marked.replace("`", "").split("\0")


class Row(tuple[Any, ...]):
    """A row of Python values, in the order of the columns."""

    names: Sequence[str] = ()

    @property
    def values(self) -> list[Any]:
        return list(self)

    def get_field(self, pos: int) -> Any:
        return self[pos]

    def to_dict(self) -> dict[str, Any]:
        return dict(zip(self.names, self))


@dataclass(frozen=True)
class OutputColumn:
    """A column of the result: its name, and its path from a column of the table through rows."""

    name: str
    path: Path

    @property
    def field(self) -> t.DataField:
        """The column in its type of Paimon."""
        return replace(make_member_field(self.path), name=self.name)


def find_path(name: str, fields: Sequence[t.DataField]) -> Path:
    """Return the path of a column, or of a member of rows: ``a.b``.

    Raises:
        ColumnNotFound: neither is there. Unsupported: a key of a map, or a function of a VARIANT.
    """
    path = find_member(fields, name)
    if path is not None:
        return path
    if any(mark in name for mark in "[("):
        hint = "read the whole column, and select from it in Arrow, Polars or DuckDB"
        raise Unsupported(f"the projection {name!r}, a key of a map or a function,", hint=hint)
    raise ColumnNotFound(f"there is no column {name!r}; {format_columns([each.name for each in fields])}")
