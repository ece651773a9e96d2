"""Tables made, dropped, renamed, and put in the place of others; and those that an overwrite keeps."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import SYSTEM_DATABASE
from morrow.engine.errors import DatabaseNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.format.file_formats import known_format
from morrow.engine.options import Options
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.table import TYPE
from morrow.engine.options.registry import OPTIONS, present_key
from morrow.engine.plan.folder_table import FORMAT_TABLE, FORMATS
from morrow.spark.catalogs import described
from morrow.spark.catalogs.defaults import defaults_in
from morrow.spark.catalogs.place import Place, Question, full_name, parsed
from morrow.spark.catalogs.read import is_of_folder, load
from morrow.spark.source.secret_options import check_no_secrets
from morrow.spark.types.to_paimon import check_collations, paimon_fields
from morrow.writers.operations.overriding import OF_A_WRITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROVIDERS = ("paimon", "morrow")
DEFAULT_SOURCE = "spark.sql.sources.default"
IGNORED = ("owner", "is_managed_location", "provider", "comment")
"""Properties that Spark adds, or that are given apart."""
COLLATION = "collation"
"""The property that is DEFAULT COLLATION."""
DEFAULT_DATABASE = "default"
OPTION = "option."
"""Spark's prefix of what stands in OPTIONS (...), which it also gives without it; alone it is of ROW FORMAT."""
OF_HIVE = ("hive.stored-as", "hive.serde", "hive.input-format", "hive.output-format")
"""Properties that Spark makes of STORED AS and ROW FORMAT."""


def _create(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    _made(place, question, question["name"])
    return load(place, question)


def _made(place: Place, question: Question, name: str) -> None:
    from pyspark.sql.types import StructType

    full = full_name(question["namespace"], name)
    check_database(place, question["namespace"][0])
    properties = question["properties"]
    _check(place, properties)
    own = {k: v for k, v in properties.items() if k not in IGNORED and not k.startswith(OPTION)}
    check_no_secrets(own, full)
    provider = properties.get("provider", "").lower()
    if provider != FILE_FORMAT.default and (_is_format(provider) or (_is_of_files(properties) and provider in FORMATS)):
        own.setdefault(FILE_FORMAT.key, provider)
    schema = StructType.fromJson(json.loads(question["schema"]))
    check_collations(schema)
    fields = paimon_fields(schema)
    partition_keys = [_column(path) for path in question["partitions"]]
    if _is_of_files(properties):
        if defaults_in(place.spark, schema, {field.name: field for field in fields}):
            raise Unsupported("default values of columns of a format table", where=full)
        place.catalog.create_format_table(
            full,
            fields,
            format=str(own.pop(FILE_FORMAT.key, FILE_FORMAT.default)),
            partition_keys=partition_keys,
            options={key: value for key, value in own.items() if key != TYPE.key},
            comment=properties.get("comment"),
        )
        return
    place.catalog.create_table(
        full,
        schema=fields,
        defaults=defaults_in(place.spark, schema, {field.name: field for field in fields}),
        partition_keys=partition_keys,
        options=own,
        comment=properties.get("comment"),
    )


def check_database(place: Place, name: str) -> None:
    """Raises `DatabaseNotFound`: creating a table makes no database but ``default``."""
    if name != DEFAULT_DATABASE and name not in place.catalog.databases():
        raise DatabaseNotFound(f"there is no database {name}")


def _check(place: Place, properties: dict[str, str]) -> None:
    """Refuses what a table would be made without."""
    provider = properties.get("provider", PROVIDERS[0]).lower()
    # saveAsTable names the session's default where its caller names none.
    is_default = provider == place.spark.conf.get(DEFAULT_SOURCE) and _is_format(provider)
    is_files = _is_of_files(properties) and provider in FORMATS
    if provider not in PROVIDERS and not is_default and not is_files:
        raise Unsupported(f"a table USING {provider}", hint="write USING paimon, or leave it out")
    for key in ("location", "external"):
        if key in properties:
            raise Unsupported("a table with a LOCATION of its own", hint="tables lie in the folder of their catalog")
    if COLLATION in properties:
        raise Unsupported(f"a table with DEFAULT COLLATION {properties[COLLATION]}", hint="collate in queries")
    for key in properties:
        if key in OF_HIVE or (key.startswith(OPTION) and key.removeprefix(OPTION) not in properties):
            hint = "leave them out; TBLPROPERTIES ('file.format' = 'orc') says how files are written"
            raise Unsupported("a table with STORED AS or ROW FORMAT", hint=hint)


def _is_of_files(properties: dict[str, str]) -> bool:
    """Returns whether a format table is asked for."""
    return properties.get(TYPE.key, "").strip().lower() == FORMAT_TABLE


def _is_format(provider: str) -> bool:
    """Returns whether tables can be written in files of this format."""
    known = known_format(provider)
    return known is not None and known.lacks is not None


def _column(path: list[str]) -> str:
    if len(path) != 1:
        raise InvalidArgument(f"PARTITIONED BY {'.'.join(path)}: a member of a column is no partition key")
    return path[0]


def _drop(place: Place, question: Question, _rows: DataFrame | None) -> bool:
    name = full_name(question["namespace"], question["name"])
    parts = parsed(name)
    if parts.system is not None or parts.branch is not None or name.startswith(f"{SYSTEM_DATABASE}."):
        raise Unsupported(f"dropping {name}, which is no table of its own,", hint="a branch: CALL sys.delete_branch")
    try:
        place.catalog.drop_table(name)
    except (TableNotFound, DatabaseNotFound):
        return False
    return True


def _rename(place: Place, question: Question, _rows: DataFrame | None) -> str:
    """Renames a table; returns the database where it then is."""
    *catalog, database = question["to namespace"] or question["namespace"]
    if catalog not in ([], [place.name]):
        raise Unsupported(f"renaming a table into another catalog, {'.'.join(catalog)},")
    namespace = [database]
    place.catalog.rename_table(full_name(question["namespace"], question["name"]), full_name(namespace, question["to"]))
    return str(database)


# Tables made together with their rows


def _stage(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Makes a table that a query then fills: under its own name, or beside the one that it will replace."""
    if question["how"] == "create":
        _made(place, question, question["name"])
        made = load(place, question)
        _check_order(place, question, made)
        return {**made, "staged": {"how": "create"}}
    if _is_of_files(question["properties"]):
        raise Unsupported("REPLACE TABLE by a format table", hint="drop the table, and create it")
    place.catalog.check_replaceable()
    beside = f"{question['name']}-staged-{uuid.uuid4().hex[:12]}"
    _made(place, question, beside)
    staged = {"how": "replace", "name": full_name(question["namespace"], question["name"])}
    return {**load(place, {**question, "name": beside}), "staged": staged}


def _check_order(place: Place, question: Question, made: dict[str, object]) -> None:
    """Drops a new table that has its columns in another order than the query that fills it by their places.

    Raises:
        Unsupported: it has.
    """
    asked, there = ([field["name"] for field in json.loads(str(each["schema"]))["fields"]] for each in (question, made))
    if asked != there:
        place.catalog.drop_table(full_name(question["namespace"], question["name"]))
        hint = f"select them as {', '.join(there)}"
        raise Unsupported(f"CREATE TABLE AS with the columns in the order {', '.join(asked)}", hint=hint)


def _publish(place: Place, question: Question, _rows: DataFrame | None) -> None:
    """Gives a filled table its name; the one that had it is dropped then. Between the two steps there is none."""
    staged = question["staged"]
    if staged["how"] == "create":
        return
    place.catalog.replace_table(staged["name"], question["table"])


def _discard(place: Place, question: Question, _rows: DataFrame | None) -> None:
    place.catalog.drop_table(question["table"], ignore_if_not_exists=True)


# Tables whose rows are replaced


def _kept(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, str]:
    """Returns the options for the write of ``saveAsTable`` that overwrites the rows of a table, which stays as it is.

    Raises:
        Unsupported: it names another table than there is: other partitions, keys, buckets, another provider.
    """
    given: Mapping[str, str] = question["options"]
    _check(place, {key: question[key] for key in ("provider", "location") if question[key] is not None})
    if is_of_folder(question):
        return dict(given)
    table, asked_keys = place.table(question["table"]), [".".join(path) for path in question["partitions"]]
    if asked_keys and [key.casefold() for key in asked_keys] != [key.casefold() for key in table.partition_keys]:
        raise _another(table.path, f"partitioned by {', '.join(asked_keys)}")
    there, left = Options(described.properties(table)), dict(given)
    for key, value in given.items():
        option = OPTIONS.get(present_key(key))
        if option is None or option.key in OF_A_WRITE:
            continue
        if Options({key: value}).get(option) != there.get(option):
            raise _another(table.path, f"with {key!r} = {value!r}")
        del left[key]
    return left


def _another(where: str, what: str) -> Unsupported:
    """Returns the error of an overwrite that would need another table."""
    hint = "writeTo(...).createOrReplace() puts another table in its place"
    return Unsupported(f"saveAsTable in the mode overwrite, which keeps the table, {what},", where=where, hint=hint)


ANSWERS = {
    "create table": _create,
    "drop table": _drop,
    "rename table": _rename,
    "stage table": _stage,
    "publish table": _publish,
    "discard table": _discard,
    "kept table": _kept,
}
