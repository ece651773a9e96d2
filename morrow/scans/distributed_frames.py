"""Scans as Ray datasets, Dask DataFrames and Daft DataFrames, whose tasks read splits; writes from Ray."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from morrow.engine.plugins import require_extra

if TYPE_CHECKING:
    from morrow.scans.splits import Split


def to_ray(splits: Sequence[Split], schema: pa.Schema, **options: Any) -> Any:
    """Return a Ray dataset whose tasks read these splits; see `Scan.to_ray`."""
    with require_extra("to_ray", "ray", "ray"):
        import ray.data
        from ray.data import Datasource
        from ray.data.block import BlockMetadata
        from ray.data.datasource import ReadTask

    class MorrowSource(Datasource):  # type: ignore[misc]  # Ray is not there when types are checked
        """The splits of a scan."""

        def get_read_tasks(self, *_: Any, **__: Any) -> list[ReadTask]:
            return [
                ReadTask(
                    partial(_read_tables, split),
                    BlockMetadata(num_rows=None, size_bytes=split.size, input_files=split.paths, exec_stats=None),
                    schema=schema,
                )
                for split in splits
            ]

        def estimate_inmemory_data_size(self) -> int:
            return sum(split.size for split in splits)

        def get_name(self) -> str:
            return "Morrow"

    if not splits:
        return ray.data.from_arrow(schema.empty_table())
    return ray.data.read_datasource(MorrowSource(), **options)


def _read_tables(split: Split) -> Iterator[pa.Table]:
    """Yield the rows of a split as tables, at least one, from which Ray takes the schema."""
    empty = True
    for batch in split.to_batches():
        empty = False
        yield pa.Table.from_batches([batch], split.schema)
    if empty:
        yield split.schema.empty_table()


def to_dask(splits: Sequence[Split], empty: Split) -> Any:
    """Return a Dask DataFrame with a partition for each split; `empty` is a split of the same columns without rows."""
    with require_extra("to_dask", "dask", "dask"):
        import dask.dataframe
    meta = empty.to_pandas()
    if not splits:
        return dask.dataframe.from_pandas(meta, npartitions=1)
    return dask.dataframe.from_map(_read_frame, list(splits), meta=meta, label="morrow")


def _read_frame(split: Split) -> Any:
    return split.to_pandas()


def to_daft(splits: Sequence[Split], schema: pa.Schema) -> Any:
    """Return a Daft DataFrame whose tasks read these splits; see `Scan.to_daft`."""
    with require_extra("to_daft", "daft", "daft"):
        import daft
        from daft.io.source import DataSource, DataSourceTask
        from daft.recordbatch import RecordBatch

    rows = daft.Schema.from_pyarrow_schema(schema)

    class Task(DataSourceTask):  # type: ignore[misc]  # Daft is not there when types are checked
        """The rows of a split."""

        def __init__(self, split: Split) -> None:
            self._split = split

        @property
        def schema(self) -> Any:
            return rows

        async def read(self) -> AsyncIterator[RecordBatch]:
            for batch in self._split.to_batches():
                yield RecordBatch.from_arrow_record_batches([batch], batch.schema)

    class Source(DataSource):  # type: ignore[misc]  # Daft is not there when types are checked
        """The splits of a scan."""

        @property
        def name(self) -> str:
            return "Morrow"

        @property
        def schema(self) -> Any:
            return rows

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Task]:  # noqa: ARG002  # Daft applies them itself
            for split in splits:
                yield Task(split)

    return Source().read()
