"""Tables of Hive's own as format tables: which files they have is told by their classes, as Java reads them."""

from __future__ import annotations

import itertools
from typing import Any

from morrow.engine.catalog.hive.tables import COMMENT, TABLE_TYPE, VIRTUAL_VIEW
from morrow.engine.catalog.hive.types import paimon_type
from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField
from morrow.engine.options.declared.files import FILE_FORMAT
from morrow.engine.options.declared.formats import CSV_FIELD_DELIMITER
from morrow.engine.options.declared.table import TYPE
from morrow.engine.plan.folder_table import FORMAT_TABLE

DELIMITER, HIVES_DELIMITER = "field.delim", "\x01"


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
