"""``$table_indexes``: the index files of a snapshot, and the ranges of their deletion vectors."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from morrow.engine.format import types as t
from morrow.engine.plan.manifests import index_entries
from morrow.readers.casts.dtypes import polars_dtype
from morrow.readers.system.base import MetadataTable, TableState, columns_of, frame_of
from morrow.readers.system.partition_text import partition_rows

RANGES = t.ArrayType(
    element=t.RowType(
        fields=columns_of(
            f0="STRING NOT NULL",  # the data file
            f1="INT NOT NULL",  # start of its vector
            f2="INT NOT NULL",  # length of its vector
            _CARDINALITY="BIGINT",
        )
    )
)
COLUMNS = columns_of(
    partition="STRING",
    bucket="INT NOT NULL",
    index_type="STRING NOT NULL",
    file_name="STRING NOT NULL",
    file_size="BIGINT NOT NULL",
    row_count="BIGINT NOT NULL",
    dv_ranges=RANGES,
)


def _rows(state: TableState, _wanted: Collection[str]) -> pl.DataFrame:
    metadata, snapshot = state.metadata, state.snapshot
    entries = None if snapshot is None else index_entries(metadata, snapshot)
    if entries is None:
        return frame_of(COLUMNS, [])
    return entries.select(
        partition_rows(entries["_PARTITION"], state.schema, where=metadata.where).alias("partition"),
        bucket="_BUCKET",
        index_type="_INDEX_TYPE",
        file_name="_FILE_NAME",
        file_size="_FILE_SIZE",
        row_count="_ROW_COUNT",
        dv_ranges=pl.col("_DELETIONS_VECTORS_RANGES").cast(polars_dtype(RANGES)),
    )


TABLE_INDEXES = MetadataTable("table_indexes", "the index files of a snapshot", COLUMNS, _rows, travels=True)
