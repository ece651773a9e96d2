"""listagg: texts joined by a delimiter, null and empty ones left out."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from morrow.engine.format.types import DataType
from morrow.engine.merge.spec import AggregateCall
from morrow.engine.names import col
from morrow.readers.merges.functions.base import VALUE, Aggregator, Make, State, unless_null

BLANK = " "
"""The separator for splitting texts where the delimiter is empty."""


class ListAgg(Aggregator):
    """The concatenation of texts. A single value stays as it is, even empty."""

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter

    def agg(self, state: State, new: pl.Expr) -> State:
        text = state[VALUE]
        joined = pl.when(new == "").then(text).when(text == "").then(new).otherwise(self.joined(text, new))
        return {VALUE: unless_null(text, new, joined)}

    def joined(self, text: pl.Expr, new: pl.Expr) -> pl.Expr:
        """Joins both, neither null nor empty."""
        return pl.concat_str(text, pl.lit(self.delimiter), new)


class ListAggDistinct(ListAgg):
    """The concatenation of tokens (split at the delimiter, empty ones left out) that are not present yet.

    The accumulator stays as it is: a first value may repeat a token.
    """

    def joined(self, text: pl.Expr, new: pl.Expr) -> pl.Expr:
        pairs = pl.struct(text.alias("text"), new.alias("new"))
        return pairs.map_batches(self._appended, return_dtype=pl.String(), is_elementwise=True)

    def _appended(self, pairs: pl.Series) -> pl.Series:
        rows = pairs.struct.unnest().with_row_index("row")
        present = rows.select("row", token=self._tokens("text")).explode("token")
        offered = rows.select("row", token=self._tokens("new")).explode("token").filter(pl.col("token") != "")
        added = (
            offered.unique(maintain_order=True)
            .join(present, on=["row", "token"], how="anti", maintain_order="left")
            .group_by("row", maintain_order=True)
            .agg(pl.col("token").str.join(self.delimiter))
        )
        result = rows.join(added, on="row", how="left", maintain_order="left")
        more = pl.concat_str("text", pl.lit(self.delimiter), "token")
        return result.select(pl.when(pl.col("token").is_null()).then("text").otherwise(more)).to_series()

    def _tokens(self, column: str) -> pl.Expr:
        return col(column).str.split(self.delimiter or BLANK, literal=True)


def _listagg(call: AggregateCall, _dtype: DataType) -> Aggregator:
    return ListAggDistinct(call.delimiter) if call.distinct else ListAgg(call.delimiter)


AGGREGATORS: Mapping[str, Make] = {"listagg": _listagg}
