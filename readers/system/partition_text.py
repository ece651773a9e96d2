"""Partitions as text: ``{2024-01-01, 7}``, and ``dt=2024-01-01/hour=7`` in ``$partitions``."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from morrow.engine.format.binary_row import decode_columns
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import VarCharType
from morrow.engine.names import cols
from morrow.readers.casts import arrow_cast
from morrow.readers.casts.dtypes import to_arrow_array, to_series
from morrow.readers.casts.java_text import joined_texts

STRING = VarCharType()


def partition_rows(stored: pl.Series, schema: TableSchema, *, where: str) -> pl.Series:
    """Formats ``{a, null}`` of partitions as manifests store them (Binary): values without names, cast to STRING.

    Raises:
        CorruptFile: the bytes are no partition of the table.
    """

    def show(distinct: pl.Series) -> pl.Series:
        return joined_texts(
            [("", text) for text in partition_columns(distinct, schema, where=where)], "{}", len(distinct)
        )

    return _once_each(stored, show)


def partition_columns(stored: pl.Series, schema: TableSchema, *, where: str) -> list[pl.Series]:
    """Returns the text of each partition column, null for null. Raises as `partition_rows`."""
    types = [schema.by_name[name].type for name in schema.partition_keys]
    values = decode_columns(stored, types, where=where)
    return [
        to_series(value.name, arrow_cast(to_arrow_array(value, kind), kind, STRING, where=where), STRING)
        for value, kind in zip(values, types, strict=True)
    ]


def partition_specs(stored: pl.Series, schema: TableSchema, default_name: str, *, where: str) -> pl.Series:
    """Formats ``dt=2024-01-01/hour=7``: null or blank values get the name of the default partition.

    Raises as `partition_rows`.
    """
    if not schema.partition_keys:
        return pl.Series([""], dtype=pl.String).new_from_index(0, len(stored))
    texts = partition_columns(stored, schema, where=where)
    named = pl.DataFrame([text.alias(name) for name, text in zip(schema.partition_keys, texts, strict=True)])
    parts = [
        pl.concat_str(
            pl.lit(f"{name}="),
            pl.when(text.str.strip_chars() != "").then(text).otherwise(pl.lit(default_name)),
        )
        for name, text in zip(schema.partition_keys, cols(schema.partition_keys))
    ]
    return named.select(pl.concat_str(parts, separator="/")).to_series()


def _once_each(values: pl.Series, function: Callable[[pl.Series], pl.Series]) -> pl.Series:
    """Applies `function` once to each distinct value: tables have many more files than partitions."""
    distinct = values.unique(maintain_order=True)
    if len(distinct) == len(values):
        return function(values)
    known = pl.DataFrame({"value": distinct, "text": function(distinct)})
    wanted = pl.DataFrame({"value": values})
    return wanted.join(known, on="value", how="left", maintain_order="left", nulls_equal=True)["text"]
