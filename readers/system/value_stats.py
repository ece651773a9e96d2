"""Value statistics of files as text, in the columns of the schema that is read: ``{a=1, b=null}``.

A file's statistics cover columns of the schema it was written with, and only some of those (see
`morrow.engine.format.stats`). Columns are matched by field id; a value of another type is cast as a row's value would
be. A column that the file's schema does not have is null in every row, so its null count is the number of rows; a
column without statistics shows null. A file without any statistics shows ``{}``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import polars as pl

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import arities, decode_columns
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.stats import UNKNOWN
from morrow.engine.format.type_equality import same_values
from morrow.engine.format.types import DataField
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.casts import arrow_cast
from morrow.readers.casts.dtypes import to_arrow_array, to_series
from morrow.readers.casts.java_text import java_order, joined_texts, stored_texts, texts_of

NULL_COUNTS, MINIMA, MAXIMA = "null_value_counts", "min_value_stats", "max_value_stats"
STATS_COLUMNS = (NULL_COUNTS, MINIMA, MAXIMA)
_MEMBERS = {MINIMA: "_MIN_VALUES", MAXIMA: "_MAX_VALUES"}
_COVERED, _ROW, _EMPTY = "covered", "row", "{}"


@dataclass(frozen=True)
class _Column:
    """A column that is read, its field in the file's schema and its place in the statistics; None where it has none."""

    read: DataField
    written: DataField | None
    place: int | None


@dataclass(frozen=True)
class _Layout:
    """Files of one schema whose statistics cover the same columns: `stored` by name, `columns` in Java's order."""

    stored: tuple[str, ...]
    schema: TableSchema
    columns: tuple[_Column, ...]

    @property
    def known(self) -> list[_Column]:
        return [column for column in self.columns if column.place is not None]


def value_stats_texts(
    metadata: TableMetadata, schema: TableSchema, files: pl.DataFrame, wanted: Collection[str]
) -> pl.DataFrame:
    """Returns the wanted `STATS_COLUMNS`, a row for each of `files` (columns of manifest entries), in order.

    Raises:
        CorruptFile: statistics lack a value for one of their columns. FileMissing: a schema is gone.
        Unsupported: a value that cannot be cast to the type its column has now.
    """
    names = [name for name in STATS_COLUMNS if name in wanted]
    if not names or not files.height:
        return pl.DataFrame(schema=dict.fromkeys(names, pl.String))
    covered = files["_VALUE_STATS_COLS"].zip_with(files["_VALUE_STATS_COLS"].is_not_null(), files["_WRITE_COLS"])
    rows = files.select("_SCHEMA_ID", "_VALUE_STATS", "_ROW_COUNT", covered.alias(_COVERED)).with_row_index(_ROW)
    parts = []
    for (schema_id, stored), part in rows.group_by("_SCHEMA_ID", _COVERED, maintain_order=True):
        layout = _layout(metadata.schema(int(str(schema_id))), schema, stored)
        texts = {name: _texts(name, layout, part, metadata.where) for name in names}
        parts.append(part.select(_ROW).with_columns(**texts))
    return pl.concat(parts).sort(_ROW).select(names)


def _layout(written: TableSchema, read: TableSchema, stored: object) -> _Layout:
    names = tuple(written.by_name) if stored is None else tuple(stored)  # type: ignore[arg-type]  # a list of names
    by_id = {field.id: field for field in written.fields}
    places = {name: place for place, name in enumerate(names)}

    def column(field: DataField) -> _Column:
        before = by_id.get(field.id)
        return _Column(field, before, None if before is None else places.get(before.name))

    columns = sorted(map(column, read.fields), key=lambda column: java_order(column.read.name))
    return _Layout(names, written, tuple(columns))


def _texts(name: str, layout: _Layout, part: pl.DataFrame, where: str) -> pl.Series:
    stats = part["_VALUE_STATS"].struct
    absent = pl.Series(arities(stats.field("_MIN_VALUES"), where=where) == 0)
    if name == NULL_COUNTS:
        found = _counts(layout, stats.field("_NULL_COUNTS"), part["_ROW_COUNT"], where)
    else:
        found = _bounds(layout, stats.field(_MEMBERS[name]), absent, where)
    shown = [(f"{column.read.name}=", text) for column, text in zip(layout.columns, found, strict=True)]
    texts = joined_texts(shown, "{}", part.height)
    if layout.stored and absent.any():
        texts = texts.zip_with(~absent, pl.Series([_EMPTY]))
    return texts


def _counts(layout: _Layout, counts: pl.Series, rows: pl.Series, where: str) -> list[pl.Series]:
    sizes = counts.list.len()
    if ((sizes != len(layout.stored)) & (sizes != 0)).any():
        raise Unsupported(
            f"statistics whose null counts are not for the file's {len(layout.stored)} columns", where=where
        )

    def of(column: _Column) -> pl.Series:
        if column.written is None:
            return rows.cast(pl.String)
        if column.place is None:
            return _nulls(len(rows))
        return counts.list.get(column.place, null_on_oob=True).cast(pl.String)

    return [of(column) for column in layout.columns]


def _bounds(layout: _Layout, stored: pl.Series, absent: pl.Series, where: str) -> list[pl.Series]:
    if absent.any():
        stored = stored.zip_with(~absent, pl.Series([None], dtype=pl.Binary))
    known = layout.known
    same = [c for c in known if c.written is not None and same_values(c.written.type, c.read.type)]
    changed = [c for c in known if c not in same]
    types = [layout.schema.by_name[name].type if name in layout.schema.by_name else UNKNOWN for name in layout.stored]
    texts = dict(zip(_ids(same), stored_texts(stored, types, _places(same), where=where), strict=True))
    values = decode_columns(stored, types, where=where, columns=_places(changed), unrepresentable="null")
    texts |= {c.read.id: _cast_text(c, value, where) for c, value in zip(changed, values, strict=True)}
    nothing = _nulls(len(stored))
    return [texts.get(column.read.id, nothing) for column in layout.columns]


def _cast_text(column: _Column, values: pl.Series, where: str) -> pl.Series:
    """Returns the text of a value in the column's current type."""
    if values.null_count() == len(values):  # nested values are never shown
        return _nulls(len(values))
    assert column.written is not None
    source, target = column.written.type, column.read.type
    place = f"{where}, column {column.read.name}"
    cast = arrow_cast(to_arrow_array(values, source), source, target, where=place)
    return texts_of(to_series(column.read.name, cast, target), target)


def _ids(columns: Sequence[_Column]) -> list[int]:
    return [column.read.id for column in columns]


def _places(columns: Sequence[_Column]) -> list[int]:
    return [column.place for column in columns if column.place is not None]


def _nulls(count: int) -> pl.Series:
    return pl.Series([None], dtype=pl.String).new_from_index(0, count)
