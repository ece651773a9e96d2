"""Limits on the decompressed pages of a Parquet file, checked in their headers before Arrow allocates memory for them.

Arrow trusts the numbers of a page header: a few bytes can claim, and with a good codec decompress to, gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from morrow.engine.errors import CorruptFile
from morrow.engine.format.thrift import Struct, ThriftError, decode, decode_from

TAIL_BYTES = 8
"""The end of a file: the length of the footer, and the magic."""
ROWS, ROW_GROUPS = 3, 4
"""FileMetaData."""
COLUMNS, GROUP_ROWS = 1, 3
"""RowGroup."""
DATA_OFFSET, DICTIONARY_OFFSET, STORED = 9, 11, 7
"""ColumnMetaData, which is member 3 of ColumnChunk."""
METADATA = 3
PAGE_UNCOMPRESSED, PAGE_STORED = 2, 3
"""PageHeader."""


def check_size(data: bytes, where: str, most_rows: int, most_bytes: int) -> None:
    """Checks that a Parquet file claims at most `most_rows` rows, and `most_bytes` bytes of pages.

    Raises:
        CorruptFile: it claims more, or its footer or a page header is damaged.
    """
    try:
        length = int.from_bytes(data[-TAIL_BYTES : -TAIL_BYTES // 2], "little")
        footer = decode(data[-TAIL_BYTES - length : -TAIL_BYTES])
        rows = sum(group[GROUP_ROWS][1] for group in footer[ROW_GROUPS][1])
        unpacked = sum(_pages(data, footer))
    except (ThriftError, KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CorruptFile(where, f"the footer or a page header of the Parquet file is damaged ({error})") from error
    if not 0 <= rows <= most_rows or rows != footer[ROWS][1]:
        raise CorruptFile(where, f"it claims {rows} rows, more than its {len(data)} bytes can name files")
    if unpacked > most_bytes:
        raise CorruptFile(where, "it decompresses to more than a file of its size can hold")


def _pages(data: bytes, footer: Struct) -> Iterator[int]:
    """Yields the size of each page in bytes, decompressed."""
    for group in footer[ROW_GROUPS][1]:
        for chunk in group[COLUMNS][1]:
            column: Struct = chunk[METADATA][1]
            if column[STORED][1] == 0:
                continue
            offsets = [column[member][1] for member in (DATA_OFFSET, DICTIONARY_OFFSET) if member in column]
            at = min(offset for offset in offsets if offset > 0)
            end = at + column[STORED][1]
            if not 0 < at <= end <= len(data):
                raise ThriftError("a column lies outside of the file")
            while at < end:
                header, at = decode_from(data, at)
                stored, unpacked = header[PAGE_STORED][1], header[PAGE_UNCOMPRESSED][1]
                if stored < 0 or unpacked < 0:
                    raise ThriftError("a page of less than no bytes")
                yield unpacked
                at += stored
