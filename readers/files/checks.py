"""Checks of a data file against what metadata says of it, without reading its data."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from morrow.engine.errors import CorruptFile, FileMissing
from morrow.readers.files.parquet import row_count
from morrow.readers.files.source import FileSource, check_rows, reading


def verify(source: FileSource, *, rows: bool = False) -> None:
    """Check that the file is there with the size that metadata gives; with `rows` also how many rows it says it has.

    The size costs one look-up; the rows one read of the footer (Avro: of the file; text formats are not checked).

    Raises:
        FileMissing, CorruptFile.
    """
    size = source.store.size(source.path)
    if size is None:
        raise FileMissing(source.path)
    if source.size and size != source.size:
        raise CorruptFile(source.path, f"has {size} bytes where metadata says {source.size}")
    if rows and source.format in ROW_COUNTERS:
        with reading(source.path):
            check_rows(source, ROW_COUNTERS[source.format](source))


def verify_pages(source: FileSource) -> None:
    """Decode all of a Parquet file, comparing the checksum of every page that has one (Java writes them).

    Scans do not do this: Polars does not look at page checksums, and decoding twice would double the cost of a read.

    Raises:
        CorruptFile: a page that is damaged or does not decode, or another number of rows than metadata says.
    """
    with reading(source.path), source.store.open(source.path) as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        check_rows(source, sum(batch.num_rows for batch in file.iter_batches(use_threads=True)))


def _orc_rows(source: FileSource) -> int:
    import pyarrow.orc as orc

    with source.store.open(source.path) as stream:
        return int(orc.ORCFile(pa.PythonFile(stream, mode="r")).nrows)


def _avro_rows(source: FileSource) -> int:
    from morrow.engine.format.avro import read_container

    return read_container(source.store.read(source.path), where=source.path).rows


def _blob_rows(source: FileSource) -> int:
    from morrow.readers.files.blob import record_lengths

    return len(record_lengths(source))


ROW_COUNTERS: dict[str, Callable[[FileSource], int]] = {
    "parquet": row_count,
    "orc": _orc_rows,
    "avro": _avro_rows,
    "blob": _blob_rows,
}
"""Number of rows according to the file itself."""
