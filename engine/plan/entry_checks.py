"""Checks of manifest entries against other metadata: the order of keys, the columns of schemas."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import polars as pl

from morrow.engine.errors import OTHER_WRITER, CorruptFile, Unsupported
from morrow.engine.format.schema import SYSTEM_FIELD_ID_START, TableSchema

SYSTEM_PREFIX = "_"
"""The prefix of the columns that Paimon adds to files."""


def check_key_order(entries: pl.DataFrame, reversed_: npt.NDArray[np.bool_], where: str) -> None:
    """Checks that no least key is above the greatest; `reversed_` marks the entries where it is.

    Raises:
        CorruptFile: a least key is above the greatest.
    """
    if reversed_.any():
        name = entries["_FILE_NAME"][int(np.flatnonzero(reversed_)[0])]
        raise CorruptFile(where, f"the least key of {name} is above its greatest")


def check_columns(schemas: Iterable[TableSchema], read: TableSchema, entries: pl.DataFrame, where: str) -> None:
    """Checks that files hold columns of the schemas they were written with, and that those lead to the schema read.

    Args:
        schemas: those of the entries.
        read: the schema whose columns are read.

    Raises:
        Unsupported: a file was written without columns, or with one that its schema does not have; or a column that is
            read has an id that an older schema had assigned, and not to a column that it still has.
    """
    for schema in schemas:
        if schema.id < read.id:
            for field in read.fields:
                known = field.id > schema.highest_field_id or any(f.id == field.id for f in schema.fields)
                if not known and field.id < SYSTEM_FIELD_ID_START:
                    raise Unsupported(
                        f"the column {field.name!r} of schema {read.id} with the id {field.id}, which was given before "
                        f"schema {schema.id} and is not in it,",
                        where=where,
                        hint="give a column that comes back an id of its own",
                    )
        written = entries["_WRITE_COLS"].filter(entries["_SCHEMA_ID"] == schema.id)
        if written.null_count() < len(written):
            if (written.list.len() == 0).any():
                raise Unsupported("a file with none of the table's columns", where=where, hint=OTHER_WRITER)
            strange = set(written.explode().drop_nulls().unique()) - set(schema.by_name)
            if columns := sorted(name for name in strange if not name.startswith(SYSTEM_PREFIX)):
                raise Unsupported(
                    f"a file with the column {columns[0]!r}, which its schema {schema.id} lacks,",
                    where=where,
                    hint=OTHER_WRITER,
                )
