"""Tables, format tables and views as the Hive metastore stores them, with their type names.

The schema in the table's folder is authoritative. The metastore's copy is for Hive and for users. Type names are as in
`HiveTypeUtils` of Java Paimon. Native Hive tables are format tables; their Java classes determine the file format.
Views are native Hive views, as in Java Paimon: they have a single text, whose dialect is not recorded.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from morrow.engine.catalog.hive.client import Metastore, ObjectExists, ObjectMissing, find_user, load_thrift_types
from morrow.engine.catalog.hive.options import HiveOptions, to_hadoop_location
from morrow.engine.catalog.names import make_missing_error, table_name
from morrow.engine.catalog.protocol import View
from morrow.engine.errors import AlreadyExists, InvalidArgument, StorageError, TableNotFound, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.io.store import FileStore
from morrow.engine.options.declarations import Options
from morrow.engine.options.declared.connectors import METASTORE_PARTITIONED_TABLE
from morrow.engine.options.declared.files import CSV_FIELD_DELIMITER, FILE_FORMAT
from morrow.engine.options.declared.maintenance import PARTITION_EXPIRATION_TIME
from morrow.engine.options.declared.table import (
    BUCKET_KEY,
    DATA_FILE_PATH_DIRECTORY,
    PARTITION,
    PATH,
    PRIMARY_KEY,
    TYPE,
)
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderTable
from morrow.engine.structs import replace

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
SERDE = "org.apache.paimon.hive.PaimonSerDe"
STORAGE_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
TABLE_TYPE, PAIMON = "table_type", "PAIMON"
HANDLER = "storage_handler"
EXTERNAL, COMMENT = "EXTERNAL", "comment"
EXTERNAL_TABLE, MANAGED_TABLE, VIRTUAL_VIEW = "EXTERNAL_TABLE", "MANAGED_TABLE", "VIRTUAL_VIEW"
LOCATION = "paimon_location"
"""The property that has the location if the option ``location-in-properties`` is set."""
HIVE_PREFIX = "hive."
ALWAYS_KEPT = (PARTITION_EXPIRATION_TIME.key, DATA_FILE_PATH_DIRECTORY.key)
"""Options that are sent to the metastore even without ``sync-all-properties``."""
MAX_COMMENT_CHARS, CUT = 255, "..."
NO_RETENTION = (1 << 31) - 1


@dataclass(frozen=True)
class MetastoreTables:
    """Converter of tables to their metastore form, by the options of the catalog."""

    all_properties: bool = True
    location_in_properties: bool = False
    zoned_times: bool = True

    def new_table(self, database: str, table: str, schema: TableSchema, location: str, *, external: bool) -> Any:
        """Return a new table for the metastore. Raises `Unsupported` for a type that Hive lacks."""
        made = build_table(
            database, table, {**self.properties(schema), TABLE_TYPE: PAIMON, HANDLER: STORAGE_HANDLER}, external
        )
        self.describe(made, schema)
        self.place(made, location)
        return made

    def describe(self, table: Any, schema: TableSchema) -> None:
        """Set the columns, the comment and the Java classes of a metastore table from the schema."""
        types = load_thrift_types()
        descriptor = table.sd or types.StorageDescriptor(
            compressed=False, numBuckets=0, bucketCols=[], sortCols=[], parameters={}
        )
        descriptor.inputFormat, descriptor.outputFormat = INPUT_FORMAT, OUTPUT_FORMAT
        descriptor.serdeInfo = descriptor.serdeInfo or types.SerDeInfo()
        descriptor.serdeInfo.serializationLib, descriptor.serdeInfo.parameters = SERDE, {}
        keys = schema.partition_keys if has_partitions(schema) else ()
        if keys:
            table.partitionKeys = [self.column(schema.by_name[key], is_key=True) for key in keys]
        descriptor.cols = [self.column(each) for each in schema.fields if each.name not in keys]
        table.sd = descriptor
        if schema.comment is not None:
            table.parameters[COMMENT] = schema.comment

    def properties(self, schema: TableSchema) -> dict[str, str]:
        """Return the table properties for the metastore."""
        options = schema.options
        if not self.all_properties:
            return {key: value for key, value in options.items() if key.startswith(HIVE_PREFIX) or key in ALWAYS_KEPT}
        buckets = Options(options).get(BUCKET_KEY) or (schema.primary_keys and schema.trimmed_primary_keys)
        keys = {PRIMARY_KEY: schema.primary_keys, PARTITION: schema.partition_keys, BUCKET_KEY: buckets}
        return {**options, **{option.key: ",".join(names) for option, names in keys.items() if names}}

    def place(self, table: Any, location: str) -> None:
        """Set the location of a metastore table."""
        if self.location_in_properties:
            table.parameters[LOCATION] = location
        else:
            table.sd.location = location

    def place_partition(self, partition: Any, location: str) -> None:
        """Set the location of a metastore partition."""
        if self.location_in_properties:
            partition.parameters = {**(partition.parameters or {}), LOCATION: location}
        else:
            partition.sd.location = location

    def column(self, field: t.DataField, *, is_key: bool = False) -> Any:
        """Return a column for the metastore. Raises `Unsupported` for a type that Hive lacks."""
        kind = to_hive_type(field.type, zoned=self.zoned_times)
        return load_thrift_types().FieldSchema(field.name, kind, _shorten_comment(field, is_key=is_key))


def build_table(database: str, table: str, properties: dict[str, str], external: bool) -> Any:
    """Return a table for the metastore, without columns and location."""
    now = int(time.time())
    return load_thrift_types().Table(
        tableName=table,
        dbName=database,
        owner=find_user(),
        createTime=now,
        lastAccessTime=now,
        retention=NO_RETENTION,
        partitionKeys=[],
        parameters={**properties, EXTERNAL: "TRUE"} if external else properties,
        tableType=EXTERNAL_TABLE if external else MANAGED_TABLE,
    )


def has_partitions(schema: TableSchema) -> bool:
    """Return whether the metastore stores the partitions of a table."""
    return bool(schema.partition_keys) and Options(schema.options).get(METASTORE_PARTITIONED_TABLE)


def find_location(found: Any) -> str | None:
    """Return the location of a metastore table, from its properties or else from its storage descriptor."""
    own = (found.parameters or {}).get(LOCATION)
    return str(own) if own else (found.sd.location if found.sd else None) or None


def is_paimon(table: Any) -> bool:
    """Return whether a metastore table is a Paimon table."""
    return table.sd is not None and (table.sd.inputFormat, table.sd.outputFormat) == (INPUT_FORMAT, OUTPUT_FORMAT)


def is_external(table: Any) -> bool:
    """Return whether dropping a metastore table keeps its files."""
    return bool(table.tableType == EXTERNAL_TABLE)


def _shorten_comment(field: t.DataField, *, is_key: bool) -> str | None:
    text = field.description
    if text is None or is_key:
        return text
    text = text.replace("\n", " ").replace("\r", " ")
    return text if len(text) <= MAX_COMMENT_CHARS else text[: MAX_COMMENT_CHARS - len(CUT)] + CUT


MAX_CHAR_LENGTH, MAX_VARCHAR_LENGTH = 255, 65_535
"""Maximum length of CHAR and VARCHAR in Hive; longer types become ``string``."""
TIMESTAMP_PRECISION = 6
ZONED = "timestamp with local time zone"
"""A type of Hive 3 and newer."""
VARIANT = "struct<value:binary,metadata:binary>"

_NAMES: dict[type[t.DataType], str] = {
    t.BooleanType: "boolean",
    t.TinyIntType: "tinyint",
    t.SmallIntType: "smallint",
    t.IntType: "int",
    t.BigIntType: "bigint",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.BinaryType: "binary",
    t.VarBinaryType: "binary",
    t.BlobType: "binary",
    t.DateType: "date",
    t.TimeType: "string",
    t.TimestampType: "timestamp",
    t.LocalZonedTimestampType: ZONED,
    t.VariantType: VARIANT,
}
_NESTED: dict[type[t.DataType], Callable[[Any, Callable[[t.DataType], str]], str]] = {
    t.DecimalType: lambda kind, _: f"decimal({kind.precision},{kind.scale})",
    t.CharType: lambda kind, _: f"char({kind.length})" if kind.length <= MAX_CHAR_LENGTH else "string",
    t.VarCharType: lambda kind, _: f"varchar({kind.length})" if kind.length <= MAX_VARCHAR_LENGTH else "string",
    t.ArrayType: lambda kind, name: f"array<{name(kind.element)}>",
    t.VectorType: lambda kind, name: f"array<{name(kind.element)}>",
    t.MultisetType: lambda kind, name: f"map<{name(kind.element)},int>",
    t.MapType: lambda kind, name: f"map<{name(kind.key)},{name(kind.value)}>",
    t.RowType: lambda kind, name: f"struct<{','.join(f'{each.name}:{name(each.type)}' for each in kind.fields)}>",
}
_PLAIN: dict[str, t.DataType] = {
    "boolean": t.BooleanType(),
    "tinyint": t.TinyIntType(),
    "smallint": t.SmallIntType(),
    "int": t.IntType(),
    "bigint": t.BigIntType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "decimal": t.DecimalType(precision=10, scale=0),
    "string": t.VarCharType(),
    "binary": t.VarBinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(precision=TIMESTAMP_PRECISION),
    ZONED: t.LocalZonedTimestampType(precision=TIMESTAMP_PRECISION),
}


def to_hive_type(kind: t.DataType, *, zoned: bool = True) -> str:
    """Return the metastore's name of a type; without `zoned`, timestamps with a time zone become plain timestamps.

    Raises `Unsupported`: a type that Hive lacks.
    """
    name = _NAMES.get(type(kind))
    if name is not None:
        return _NAMES[t.TimestampType] if name == ZONED and not zoned else name
    spelt = _NESTED.get(type(kind))
    if spelt is None:
        raise Unsupported(f"the type {kind} in Hive's metastore", hint="leave the column out, or use another catalog")
    return spelt(kind, partial(to_hive_type, zoned=zoned))


def to_paimon_type(name: str, next_id: Callable[[], int] | None = None) -> t.DataType:
    """Return the type for a metastore type name; members of structs get their ids from `next_id`.

    Raises `Unsupported`: a type that Paimon lacks, such as ``uniontype``.
    """
    counter = iter(range(1 << 30))
    kind, rest = _parse_type(name, next_id or (lambda: next(counter)), name)
    if rest.strip():
        raise _make_unknown_error(name)
    return kind


def _parse_type(text: str, next_id: Callable[[], int], whole: str) -> tuple[t.DataType, str]:
    text = text.lstrip()
    end = next((at for at, char in enumerate(text) if char in "<>(),"), len(text))
    word, rest = text[:end].strip().lower(), text[end:]
    if word in ("array", "map", "struct") and rest.startswith("<"):
        return _parse_nested(word, rest[1:], next_id, whole)
    if rest.startswith("(") and word in ("char", "varchar", "decimal"):
        inside, _, rest = rest[1:].partition(")")
        sizes = [part.strip() for part in inside.split(",")]
        if all(size.isdigit() for size in sizes):
            numbers = [int(size) for size in sizes]
            if word == "decimal":
                return t.DecimalType(precision=numbers[0], scale=numbers[1] if len(numbers) > 1 else 0), rest
            return (t.CharType if word == "char" else t.VarCharType)(length=numbers[0]), rest
    elif word in _PLAIN:
        return _PLAIN[word], rest
    raise _make_unknown_error(whole)


def _parse_nested(word: str, rest: str, next_id: Callable[[], int], whole: str) -> tuple[t.DataType, str]:
    parts: list[t.DataType] = []
    fields: list[t.DataField] = []
    while True:
        name = ""
        if word == "struct":
            name, _, rest = rest.partition(":")
        number = next_id() if word == "struct" else 0
        kind, rest = _parse_type(rest, next_id, whole)
        rest = rest.lstrip()
        parts.append(kind)
        fields.append(t.DataField(number, name.strip(), kind))
        if not rest or rest[0] not in ",>":
            raise _make_unknown_error(whole)
        done, rest = rest[0] == ">", rest[1:]
        if done:
            break
    if word == "struct":
        return t.RowType(fields=tuple(fields)), rest
    if len(parts) != (1 if word == "array" else 2):
        raise _make_unknown_error(whole)
    return (t.ArrayType(element=parts[0]) if word == "array" else t.MapType(key=parts[0], value=parts[1])), rest


def _make_unknown_error(name: str) -> Unsupported:
    return Unsupported(f"the type {name!r} of Hive's metastore", hint="Paimon has no such type")


DELIMITER, HIVES_DELIMITER = "field.delim", "\x01"


@dataclass(frozen=True)
class Classes:
    """The Java classes with which Hive reads and writes the files of a table."""

    input: str
    output: str
    serde: str


_TEXT = Classes(
    "org.apache.hadoop.mapred.TextInputFormat",
    "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
)
_PARQUET, _ORC = "org.apache.hadoop.hive.ql.io.parquet", "org.apache.hadoop.hive.ql.io.orc"
CLASSES: Mapping[str, Classes] = {
    "parquet": Classes(
        f"{_PARQUET}.MapredParquetInputFormat",
        f"{_PARQUET}.MapredParquetOutputFormat",
        f"{_PARQUET}.serde.ParquetHiveSerDe",
    ),
    "orc": Classes(f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat", f"{_ORC}.OrcSerde"),
    "csv": _TEXT,
    "text": _TEXT,
    "json": replace(_TEXT, serde="org.apache.hive.hcatalog.data.JsonSerDe"),
}
"""The classes of each format, as in Java Paimon."""


def format_of(table: Any) -> str | None:
    """Return the file format of a native Hive table; None if it is not a format table, as in Java."""
    if table.tableType == VIRTUAL_VIEW or table.sd is None or table.sd.serdeInfo is None:
        return None
    serde = (table.sd.serdeInfo.serializationLib or "").lower()
    for format_ in ("parquet", "orc"):
        if format_ in serde:
            return format_
    if "Text" not in (table.sd.inputFormat or ""):
        return None
    if "json" in serde:
        return "json"
    return "text" if (table.parameters or {}).get(TABLE_TYPE) == "TEXT" else "csv"


def read_schema(table: Any, where: str) -> TableSchema:
    """Return the schema of a format table. Raises `Unsupported` for other tables, and for types that Paimon lacks."""
    format_ = format_of(table)
    if format_ is None:
        raise Unsupported(f"the classes of a table of Hive's own ({table.sd.inputFormat})", where=where)
    numbers = itertools.count()
    keys = tuple(table.partitionKeys or ())
    fields = tuple(
        t.DataField(next(numbers), each.name, to_paimon_type(each.type, lambda: next(numbers)), each.comment)
        for each in (*table.sd.cols, *keys)
    )
    options = dict(table.parameters or {})
    comment = options.pop(COMMENT, None)
    options |= {TYPE.key: FORMAT_TABLE, FILE_FORMAT.key: format_}
    if format_ == "csv":
        options[CSV_FIELD_DELIMITER.key] = (table.sd.serdeInfo.parameters or {}).get(DELIMITER, HIVES_DELIMITER)
    return TableSchema(0, fields, next(numbers), tuple(each.name for each in keys), (), options, comment)


def build_format_table(
    kept: MetastoreTables, database: str, table: str, made: FolderTable, location: str, *, external: bool
) -> Any:
    """Return a format table for the metastore, with its partition keys.

    Raises:
        InvalidArgument: a column name with capitals, which the metastore would turn into lower case.
        Unsupported: a column that the metastore cannot store: its type, NOT NULL, or its default.
    """
    schema, format_ = made.schema, made.format
    for each in schema.fields:
        _check_kept(kept, each, made.where)
    properties = {**schema.options, TABLE_TYPE: format_.upper(), FILE_FORMAT.key: format_, TYPE.key: FORMAT_TABLE}
    if schema.comment is not None:
        properties[COMMENT] = schema.comment
    types, classes = load_thrift_types(), CLASSES[format_]
    delimiter = {DELIMITER: made.given.get(CSV_FIELD_DELIMITER)} if format_ == "csv" else {}
    found = build_table(database, table, properties, external)
    found.partitionKeys = [kept.column(schema.by_name[key], is_key=True) for key in schema.partition_keys]
    found.sd = types.StorageDescriptor(
        cols=[kept.column(each) for each in made.stored_fields],
        inputFormat=classes.input,
        outputFormat=classes.output,
        serdeInfo=types.SerDeInfo(serializationLib=classes.serde, parameters=delimiter),
        compressed=False,
        numBuckets=0,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    kept.place(found, location)
    return found


def _check_kept(kept: MetastoreTables, field: t.DataField, where: str) -> None:
    name = to_hive_type(field.type, zoned=kept.zoned_times)
    if field.name != field.name.lower():
        raise InvalidArgument(f"{where}: the metastore lowers names; name the column {field.name.lower()!r}")
    if not field.type.nullable or field.default_value is not None:
        what = "NOT NULL" if not field.type.nullable else "a default value"
        raise Unsupported(f"{what} of the column {field.name!r} of a format table", where=where, hint="Hive drops it")
    if str(to_paimon_type(name)) != str(field.type):
        hint = f"Hive would make {name} of it"
        raise Unsupported(f"the type {field.type} of {field.name!r} in a format table", where=where, hint=hint)


class HiveFolders:
    """The methods of a Hive catalog for format tables."""

    metastore: Metastore
    kept: MetastoreTables
    choices: HiveOptions
    title: Any
    where_of: Callable[[str], str]
    kept_table: Callable[[str, str], Any]
    missing: Callable[[str, str], Exception]
    resolved: Callable[[str], tuple[FileStore, str]]
    location_of_table: Callable[[str, Any], str]
    location_of_database: Callable[[str], str]
    create_database: Callable[..., None]
    lock_of: Callable[[str, str], AbstractContextManager[object]]
    add_table: Callable[[Any, str], None]

    def folder_table(self, name: str) -> FolderTable | None:
        """Return a format table; None for a Paimon table. Raises as `table`, and `Unsupported` for other tables."""
        database, table = table_name(name)
        found = self.kept_table(database, table)
        if found is None or found.tableType == VIRTUAL_VIEW:
            raise self.missing(database, table)
        if is_paimon(found):
            return None
        self._check_enabled(name)
        where = f"{self.title}, {name}"
        schema = read_schema(found, where)
        return FolderTable(
            *self.resolved(self.location_of_table(name, found)), FORMAT_TABLE, schema, where, is_hives=True
        )

    def create_folder_table(self, name: str, schema: TableSchema) -> FolderTable:
        """Create a format table in its database's folder, or in the folder of the option ``path``, which drops keep.

        The columns are in Hive's order, partition columns last.

        Raises: as `create_table`; `InvalidArgument`, `Unsupported`: the metastore cannot store a column.
        """
        where = self.where_of(name)
        self._check_enabled(name)
        database, table = table_name(name)
        path = schema.options.get(PATH.key)
        made = FolderTable(*self.resolved(path or self.choices.location), FORMAT_TABLE, schema, where, is_hives=True)
        external = path is not None or self.choices.makes_external
        hives = build_format_table(
            self.kept, database, table, made, "", external=external
        )  # checks, before anything is created
        self.create_database(database, ignore_if_exists=True)
        location = to_hadoop_location(path) if path else f"{self.location_of_database(database)}/{table}"
        self.kept.place(hives, location)
        with self.lock_of(database, table):
            if self.kept_table(database, table) is not None:
                raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")
            self.add_table(hives, location)
        found = self.folder_table(name)
        if found is None:
            raise StorageError(f"{where}: the metastore made a table of Paimon's own of a format table")
        return found

    def _check_enabled(self, name: str) -> None:
        if not self.choices.has_format_tables:
            hint = "the catalog has format-table.enabled=false"
            raise Unsupported(f"the format table {name}", where=self.title, hint=hint)


HIVE = "hive"
VIEW_INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
VIEW_OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
VIEW_SERDE = "org.apache.hadoop.hive.serde2.MetadataTypedColumnsetSerDe"


class HiveViews:
    """The methods of a Hive catalog for views."""

    metastore: Metastore
    title: Any
    kept_table: Callable[[str, str], Any]
    check_name: Callable[[str, str], None]
    _database: Callable[[str], Any]

    def views(self, database: str) -> list[str]:
        """Return the names of the views of a database, sorted. Raises `DatabaseNotFound`."""
        self._database(database)
        return sorted(self.metastore.call("get_tables_by_type", database, "*", VIRTUAL_VIEW))

    def view(self, name: str) -> View:
        """Return a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        found = self._require_view(name)
        numbers = itertools.count()
        fields = tuple(
            t.DataField(next(numbers), each.name, to_paimon_type(each.type, lambda: next(numbers)), each.comment)
            for each in (*found.sd.cols, *(found.partitionKeys or ()))
        )
        text = found.viewExpandedText or found.viewOriginalText or ""
        options = dict(found.parameters or {})
        comment = options.pop(COMMENT, None)
        # Backticks are how Hive and Spark quote names.
        return View(text, fields, {HIVE: text} if "`" in text else {}, comment, options)

    def create_view(self, name: str, view: View) -> None:
        """Create a view. Raises `DatabaseNotFound`, `AlreadyExists`, and `Unsupported` for several dialects."""
        database, own = table_name(name)
        self.check_name("view", own)
        self._database(database)
        if any(text != view.query for text in view.dialects.values()):
            raise Unsupported("texts of a view by dialect", where=self.title, hint="a metastore keeps one text")
        if self.kept_table(database, own) is not None:
            raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already")
        try:
            self.metastore.call("create_table", _build_view(database, own, view))
        except ObjectExists:
            raise AlreadyExists(f"{self.title}: there is a table or view {name!r} already") from None

    def drop_view(self, name: str) -> None:
        """Drop a view. Raises `DatabaseNotFound`, `TableNotFound`."""
        found = self._require_view(name)
        try:
            self.metastore.call("drop_table", found.dbName, found.tableName, False)
        except ObjectMissing:
            raise self._without_view(*table_name(name)) from None

    def _require_view(self, name: str) -> Any:
        database, view = table_name(name)
        found = self.kept_table(database, view)
        if found is None or found.tableType != VIRTUAL_VIEW:
            raise self._without_view(database, view)
        return found

    def _without_view(self, database: str, view: str) -> TableNotFound:
        return make_missing_error(self.title, "view", database, view, self.views(database))


def _build_view(database: str, name: str, view: View) -> Any:
    types = load_thrift_types()
    columns = [types.FieldSchema(each.name, to_hive_type(each.type), each.description) for each in view.fields]
    serde = types.SerDeInfo(serializationLib=VIEW_SERDE, parameters={"serialization.format": "1"})
    descriptor = types.StorageDescriptor(
        cols=columns,
        inputFormat=VIEW_INPUT_FORMAT,
        outputFormat=VIEW_OUTPUT_FORMAT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=serde,
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return types.Table(
        tableName=name,
        dbName=database,
        owner=find_user(),
        sd=descriptor,
        partitionKeys=[],
        parameters={**view.options, **({COMMENT: view.comment} if view.comment is not None else {})},
        viewOriginalText=view.query,
        viewExpandedText=view.query,
        tableType=VIRTUAL_VIEW,
    )
