"""Tables of Hive's own as format tables. Which files they have is told by their classes, as Java names them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from morrow.engine.catalog.hive.client import Metastore, thrift_types
from morrow.engine.catalog.hive.options import HiveOptions, as_hadoop
from morrow.engine.catalog.hive.tables import COMMENT, TABLE_TYPE, VIRTUAL_VIEW, Kept, bare_table, is_paimon
from morrow.engine.catalog.hive.types import hive_type, paimon_type
from morrow.engine.catalog.names import table_name
from morrow.engine.errors import AlreadyExists, InvalidArgument, StorageError, Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.formats import CSV_FIELD_DELIMITER
from morrow.engine.options.declared.table import PATH, TYPE
from morrow.engine.plan.folder_table import FORMAT_TABLE, FolderTable
from morrow.engine.values import replace

DELIMITER, HIVES_DELIMITER = "field.delim", "\x01"


@dataclass(frozen=True)
class Classes:
    """The Java classes by which Hive reads and writes the files of a table."""

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
"""Format -> its classes, as Java Paimon names them."""


def format_of(table: Any) -> str | None:
    """Returns the format of the files of a table of Hive's own; None where it is no format table, as in Java."""
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


def schema_of(table: Any, where: str) -> TableSchema:
    """Returns the schema of a format table. Raises `Unsupported` for another table, or a type that Paimon lacks."""
    format_ = format_of(table)
    if format_ is None:
        raise Unsupported(f"the classes of a table of Hive's own ({table.sd.inputFormat})", where=where)
    numbers = itertools.count()
    keys = tuple(table.partitionKeys or ())
    fields = tuple(
        DataField(next(numbers), each.name, paimon_type(each.type, lambda: next(numbers)), each.comment)
        for each in (*table.sd.cols, *keys)
    )
    options = dict(table.parameters or {})
    comment = options.pop(COMMENT, None)
    options |= {TYPE.key: FORMAT_TABLE, FILE_FORMAT.key: format_}
    if format_ == "csv":
        options[CSV_FIELD_DELIMITER.key] = (table.sd.serdeInfo.parameters or {}).get(DELIMITER, HIVES_DELIMITER)
    return TableSchema(0, fields, next(numbers), tuple(each.name for each in keys), (), options, comment)


def new_table(kept: Kept, database: str, table: str, made: FolderTable, location: str, *, external: bool) -> Any:
    """Returns a format table for the metastore, partitioned there by its keys.

    Raises:
        InvalidArgument: a column in capitals, which the metastore would write small.
        Unsupported: a column that the metastore would give back as another: in its type, NOT NULL, or with a default.
    """
    schema, format_ = made.schema, made.format
    for each in schema.fields:
        _check_kept(kept, each, made.where)
    properties = {**schema.options, TABLE_TYPE: format_.upper(), FILE_FORMAT.key: format_, TYPE.key: FORMAT_TABLE}
    if schema.comment is not None:
        properties[COMMENT] = schema.comment
    types, classes = thrift_types(), CLASSES[format_]
    delimiter = {DELIMITER: made.given.get(CSV_FIELD_DELIMITER)} if format_ == "csv" else {}
    found = bare_table(database, table, properties, external)
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


def _check_kept(kept: Kept, field: DataField, where: str) -> None:
    name = hive_type(field.type, zoned=kept.zoned_times)
    if field.name != field.name.lower():
        raise InvalidArgument(f"{where}: the metastore writes names small: call the column {field.name.lower()!r}")
    if not field.type.nullable or field.default_value is not None:
        what = "NOT NULL" if not field.type.nullable else "a default value"
        raise Unsupported(f"{what} of the column {field.name!r} of a format table", where=where, hint="Hive keeps none")
    if str(paimon_type(name)) != str(field.type):
        hint = f"Hive would make {name} of it"
        raise Unsupported(f"the type {field.type} of {field.name!r} in a format table", where=where, hint=hint)


class HiveFolders:
    """The methods of a Hive catalog for format tables."""

    metastore: Metastore
    kept: Kept
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
        """Returns a format table; None for a table of Paimon's own. Raises as `table`, and `Unsupported` for others."""
        database, table = table_name(name)
        found = self.kept_table(database, table)
        if found is None or found.tableType == VIRTUAL_VIEW:
            raise self.missing(database, table)
        if is_paimon(found):
            return None
        self._check_enabled(name)
        where = f"{self.title}, {name}"
        schema = schema_of(found, where)
        return FolderTable(
            *self.resolved(self.location_of_table(name, found)), FORMAT_TABLE, schema, where, is_hives=True
        )

    def create_folder_table(self, name: str, schema: TableSchema) -> FolderTable:
        """Creates a format table in its database's folder, or in that of the option ``path``, which drops leave alone.

        Its columns are in Hive's order, those of partitions at the end.

        Raises: as `create_table`; `InvalidArgument`, `Unsupported`: what the metastore does not keep of the columns.
        """
        where = self.where_of(name)
        self._check_enabled(name)
        database, table = table_name(name)
        path = schema.options.get(PATH.key)
        made = FolderTable(*self.resolved(path or self.choices.location), FORMAT_TABLE, schema, where, is_hives=True)
        external = path is not None or self.choices.makes_external
        hives = new_table(self.kept, database, table, made, "", external=external)  # checks, before anything is made
        self.create_database(database, ignore_if_exists=True)
        location = as_hadoop(path) if path else f"{self.location_of_database(database)}/{table}"
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
