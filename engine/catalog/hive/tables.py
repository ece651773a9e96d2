"""Tables as the metastore keeps them, as Java Paimon writes them: columns, properties, classes for Hive, location.

The schema in the table's folder is the one that counts; what the metastore has is a copy for Hive and for people.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from morrow.engine.catalog.hive.client import thrift_types, user
from morrow.engine.catalog.hive.types import hive_type
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options.declared.catalogs import METASTORE_PARTITIONED_TABLE
from morrow.engine.options.declared.history import PARTITION_EXPIRATION_TIME
from morrow.engine.options.declared.table import BUCKET_KEY, DATA_FILE_PATH_DIRECTORY, PARTITION, PRIMARY_KEY
from morrow.engine.options.given import Options

INPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonInputFormat"
OUTPUT_FORMAT = "org.apache.paimon.hive.mapred.PaimonOutputFormat"
SERDE = "org.apache.paimon.hive.PaimonSerDe"
STORAGE_HANDLER = "org.apache.paimon.hive.PaimonStorageHandler"
TABLE_TYPE, PAIMON = "table_type", "PAIMON"
HANDLER = "storage_handler"
EXTERNAL, COMMENT = "EXTERNAL", "comment"
EXTERNAL_TABLE, MANAGED_TABLE, VIRTUAL_VIEW = "EXTERNAL_TABLE", "MANAGED_TABLE", "VIRTUAL_VIEW"
LOCATION = "paimon_location"
"""The property that has the location where the option ``location-in-properties`` is set."""
HIVE_PREFIX = "hive."
ALWAYS_KEPT = (PARTITION_EXPIRATION_TIME.key, DATA_FILE_PATH_DIRECTORY.key)
"""Options that the metastore gets also without ``sync-all-properties``."""
MOST_COMMENT, CUT = 255, "..."
NO_RETENTION = (1 << 31) - 1


@dataclass(frozen=True)
class Kept:
    """What the metastore keeps of tables, by the options of the catalog."""

    all_properties: bool = True
    location_in_properties: bool = False
    zoned_times: bool = True

    def new_table(self, database: str, table: str, schema: TableSchema, location: str, *, external: bool) -> Any:
        """Returns a new table for the metastore. Raises `Unsupported` for a type that Hive does not have."""
        made = bare_table(
            database, table, {**self.properties(schema), TABLE_TYPE: PAIMON, HANDLER: STORAGE_HANDLER}, external
        )
        self.describe(made, schema)
        self.place(made, location)
        return made

    def describe(self, table: Any, schema: TableSchema) -> None:
        """Sets the columns, the comment and the classes of a table of the metastore to those of the schema."""
        types = thrift_types()
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
        """Returns the properties that the metastore gets of a schema."""
        options = schema.options
        if not self.all_properties:
            return {key: value for key, value in options.items() if key.startswith(HIVE_PREFIX) or key in ALWAYS_KEPT}
        buckets = Options(options).get(BUCKET_KEY) or (schema.primary_keys and schema.trimmed_primary_keys)
        keys = {PRIMARY_KEY: schema.primary_keys, PARTITION: schema.partition_keys, BUCKET_KEY: buckets}
        return {**options, **{option.key: ",".join(names) for option, names in keys.items() if names}}

    def place(self, table: Any, location: str) -> None:
        """Sets the location of a table of the metastore."""
        if self.location_in_properties:
            table.parameters[LOCATION] = location
        else:
            table.sd.location = location

    def place_partition(self, partition: Any, location: str) -> None:
        """Sets the location of a partition of the metastore."""
        if self.location_in_properties:
            partition.parameters = {**(partition.parameters or {}), LOCATION: location}
        else:
            partition.sd.location = location

    def column(self, field: DataField, *, is_key: bool = False) -> Any:
        """Returns a column for the metastore. Raises `Unsupported` for a type that Hive does not have."""
        kind = hive_type(field.type, zoned=self.zoned_times)
        return thrift_types().FieldSchema(field.name, kind, _comment(field, is_key=is_key))


def bare_table(database: str, table: str, properties: dict[str, str], external: bool) -> Any:
    """Returns a table for the metastore, without columns and a place yet."""
    now = int(time.time())
    return thrift_types().Table(
        tableName=table,
        dbName=database,
        owner=user(),
        createTime=now,
        lastAccessTime=now,
        retention=NO_RETENTION,
        partitionKeys=[],
        parameters={**properties, EXTERNAL: "TRUE"} if external else properties,
        tableType=EXTERNAL_TABLE if external else MANAGED_TABLE,
    )


def has_partitions(schema: TableSchema) -> bool:
    """Returns whether the metastore keeps the partitions of a table."""
    return bool(schema.partition_keys) and Options(schema.options).get(METASTORE_PARTITIONED_TABLE)


def location_of(found: Any) -> str | None:
    """Returns the location of a table of the metastore: that of its properties, or of its storage."""
    own = (found.parameters or {}).get(LOCATION)
    return str(own) if own else (found.sd.location if found.sd else None) or None


def is_paimon(table: Any) -> bool:
    """Returns whether a table of the metastore is one of Paimon's own."""
    return table.sd is not None and (table.sd.inputFormat, table.sd.outputFormat) == (INPUT_FORMAT, OUTPUT_FORMAT)


def is_external(table: Any) -> bool:
    """Returns whether dropping a table of the metastore leaves its files."""
    return bool(table.tableType == EXTERNAL_TABLE)


def _comment(field: DataField, *, is_key: bool) -> str | None:
    text = field.description
    if text is None or is_key:
        return text
    text = text.replace("\n", " ").replace("\r", " ")
    return text if len(text) <= MOST_COMMENT else text[: MOST_COMMENT - len(CUT)] + CUT
