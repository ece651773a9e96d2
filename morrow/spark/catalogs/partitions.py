"""Partitions: listed, described and dropped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.catalog.partition_statistics import CREATED, to_creation_millis
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.paths import partition_path, unescape_path_name
from morrow.engine.plan.filter import NO_FILTER
from morrow.readers.casts.dtypes import to_arrow_table, to_polars_schema
from morrow.readers.execution.format_tables import find_partitions
from morrow.spark import dataframes
from morrow.spark.catalogs.questions import Place, Question, TableOpener, build_full_name
from morrow.spark.catalogs.reads import find_folder, format_table, is_of_folder
from morrow.spark.catalogs.syntax import is_ours, resolve_name, split_name
from morrow.spark.expressions import parse_partition_value, quote_name
from morrow.tables.format_table import FormatTable
from morrow.writers.commit.manifests import read_live_entries
from morrow.writers.operations.format_table import add_partitions, delete_partition_files, drop_partitions
from morrow.writers.operations.partition_filters import (
    check_new_partitions,
    find_greatest_partition,
    is_in_partition,
    list_partitions,
    parse_partition_spec,
)
from morrow.writers.target import WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from morrow.tables.table import Table


def _list_partitions(place: Place, question: Question, _rows: DataFrame | None) -> DataFrame:
    """Return the partitions that contain files now, one row each."""
    if is_of_folder(question):
        table = format_table(place, question)._table
        held = [each.constants for each in find_partitions(table, NO_FILTER, empty=True)]
        keys = [table.schema.by_name[key] for key in table.schema.partition_keys]
        frame = pl.concat([pl.DataFrame(schema=to_polars_schema(keys)), *held])
        return dataframes.to_spark(to_arrow_table(frame, keys).to_batches(), keys, place.spark, where=table.where)
    return list_partition_rows(place, question)


def list_partition_rows(place: TableOpener, question: Question, _rows: DataFrame | None = None) -> DataFrame:
    """Return the partitions of a table with snapshots."""
    target = WriteTarget.of(place.table(question["table"])._metadata, None)
    batches = to_arrow_table(list_partitions(target), target.partition_fields).to_batches()
    return dataframes.to_spark(batches, target.partition_fields, place.spark, where=target.where)


def _find_max_partition(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Return the maximum of the first partition column as text. Raises `InvalidArgument` without partitions."""
    catalog, name = resolve_name(place.spark, split_name(question["name"]))
    if catalog != place.name:
        if not is_ours(place.spark, catalog):
            hint = "name a table of a catalog of morrow.spark.catalog"
            raise Unsupported(f"max_pt of a table of the catalog {catalog}", hint=hint)
        named = ".".join(map(quote_name, (catalog, *name)))
        function = f"{quote_name(catalog)}.{SYSTEM_DATABASE}.max_pt"
        return str(place.spark.sql(f"SELECT {function}(:name)", {"name": named}).collect()[0][0])
    full = build_full_name(name[:-1], name[-1])
    try:
        return find_max_partition(place.table(full))
    except Unsupported:
        folder = find_folder(place, full)
        if not isinstance(folder, FormatTable):
            raise
        return _find_max_folder(folder)


def _find_max_folder(table: FormatTable) -> str:
    """Return the maximum of the first partition column of a format table, among partitions with files."""
    if not table.partition_keys:
        raise InvalidArgument(f"{table.path}: it is not partitioned, so that max_pt has no partition")
    key = table._table.schema.by_name[table.partition_keys[0]]
    found: list[Any] = [each.constants.get_column(key.name)[0] for each in find_partitions(table._table, NO_FILTER)]
    values = [value for value in found if value is not None]
    if not values:
        raise InvalidArgument(f"{table.path}: none of its partitions has files and a value")
    path = partition_path([max(values)], [key.type], [key.name], default_name="", legacy_name=False)
    return unescape_path_name(path.partition("=")[2])


def find_max_partition(table: Table) -> str:
    """Return the maximum of the first partition column as text. Raises `InvalidArgument` without partitions."""
    return find_greatest_partition(WriteTarget.of(table._metadata, None))


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> None:
    if is_of_folder(question):
        folder = format_table(place, question)
        drop_partitions(folder._table, _parse_partitions(question, folder.partition_keys))
        return
    drop_table_partitions(place, question)


def _truncate(place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Remove the rows of partitions. Partitions of a format table stay as folders or in the catalog."""
    if not is_of_folder(question):
        drop_table_partitions(place, question)
        return
    folder = format_table(place, question)
    delete_partition_files(folder._table, _parse_partitions(question, folder.partition_keys))


def _create(place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Register partitions. Raises as `add_partitions` and `check_added_partitions`."""
    if not is_of_folder(question):
        check_added_partitions(place, question)
        return
    folder = format_table(place, question)
    add_partitions(folder._table, _parse_partitions(question, folder.partition_keys))


def check_added_partitions(place: TableOpener, question: Question, _rows: DataFrame | None = None) -> None:
    """Do nothing for ADD PARTITION of a table with snapshots: as in Paimon, its rows determine its partitions.

    Raises `As` `check_new_partitions`.
    """
    table = place.table(question["table"])
    check_new_partitions(WriteTarget.of(table._metadata), _parse_partitions(question, table.partition_keys))


def drop_table_partitions(place: TableOpener, question: Question, _rows: DataFrame | None = None) -> None:
    """Drop partitions of a table with snapshots. The specification may match no partition."""
    table = place.table(question["table"])
    if question["partitions"]:
        table.drop_partition(*_parse_partitions(question, table.partition_keys))


def _parse_partitions(question: Question, keys: Sequence[str]) -> list[dict[str, object]]:
    return [dict(zip(keys, map(parse_partition_value, values), strict=True)) for values in question["partitions"]]


def _find_statistics(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, str]:
    """Return the statistics of a partition as SHOW TABLE EXTENDED shows them; none of a format table."""
    if is_of_folder(question):
        return {}
    table = place.table(question["table"])
    (spec,) = _parse_partitions(question, table.partition_keys)
    found = _sum_partition(table, spec)
    return {**{name: str(value) for name, value in found.items()}, STATISTICS: _format_statistics(found)}


STATISTICS = "Partition Statistics"


def _sum_partition(table: Table, spec: Mapping[str, object]) -> dict[str, int]:
    """Return the sums over the files of a partition, by Paimon's names.

    Raises `InvalidArgument`: no partition has these values, or a value does not fit its column.
    """
    target = WriteTarget.of(table._metadata)
    snapshot, values = target.metadata.latest_snapshot(), parse_partition_spec(target, spec)
    entries = None if snapshot is None else read_live_entries(target.metadata, snapshot, target.schema, None)
    stored = [] if entries is None else entries["_PARTITION"].unique().to_list()
    found = [partition for partition in stored if is_in_partition(target, partition, values)]
    if entries is None or len(found) != 1:
        given = ", ".join(f"{key}={value}" for key, value in spec.items())
        raise InvalidArgument(
            f"{table.name}: {len(found)} partitions match {given}; name one that SHOW PARTITIONS lists"
        )
    files = entries.filter(pl.col("_PARTITION") == found[0])
    created = files["_CREATION_TIME"].max()
    return {
        "fileCount": files.height,
        "fileSizeInBytes": int(files["_FILE_SIZE"].sum()),
        CREATED: to_creation_millis(created if isinstance(created, dt.datetime) else None),
        "recordCount": int(files["_ROW_COUNT"].sum()),
    }


def _format_statistics(found: Mapping[str, int]) -> str:
    return f"{found['fileSizeInBytes']} bytes, {found['recordCount']} rows"


def _describe_partition(place: Place, question: Question, _rows: DataFrame | None) -> list[list[str | None]]:
    """Return the rows of DESCRIBE ... PARTITION: those of the table and, if extended, those of the partition."""
    name, extended = question["table"], question["extended"]
    if is_of_folder(question):
        raise Unsupported("DESCRIBE of a partition of a format table", hint="SHOW PARTITIONS lists them")
    table = place.table(name)
    if "spec" in question:
        folded = {key.lower(): value for key, value in question["spec"].items()}
        spec = {key: folded[key.lower()] for key in table.partition_keys if key.lower() in folded}
        if len(spec) != len(table.partition_keys) or len(folded) != len(spec):
            keys = ", ".join(table.partition_keys) or "none"
            raise Unsupported("DESCRIBE of a partition by other columns", hint=f"give all partition columns: {keys}")
    else:
        (spec,) = _parse_partitions(question, table.partition_keys)
    full = ".".join(map(quote_name, (place.name, *name.split(".", 1))))
    shown = place.spark.sql(f"DESCRIBE TABLE {'EXTENDED ' if extended else ''}{full}").collect()
    rows: list[list[str | None]] = [list(row) for row in shown]
    found = _sum_partition(table, spec)
    if not extended:
        return rows
    created = dt.datetime.fromtimestamp(found[CREATED] / 1000)
    about = {
        "# Detailed Partition Information": "",
        "Database": name.split(".", 1)[0],
        "Table": name.split(".", 1)[1],
        "Partition Values": f"[{', '.join(f'{key}={value}' for key, value in spec.items())}]",
        "Partition Parameters": f"{{{', '.join(f'{key}={value}' for key, value in found.items())}}}",
        "Created Time": created.ctime(),
        "Last Access": "UNKNOWN",
        STATISTICS: _format_statistics(found),
    }
    rows += [["", "", ""], *([key, value, ""] for key, value in about.items()), ["", "", ""]]
    required = [field for field in table.schema if not field.nullable]
    if required:
        types = {row[0]: row[1] for row in shown}
        rows.append(["# Column Not Null", "", ""])
        rows += [[field.name, types.get(field.name, ""), "NOT NULL"] for field in required]
    return rows


ANSWERS = {
    "partitions": _list_partitions,
    "max partition": _find_max_partition,
    "drop partitions": _drop,
    "truncate partitions": _truncate,
    "create partitions": _create,
    "partition statistics": _find_statistics,
    "describe partition": _describe_partition,
}
