"""Footers of Parquet files: merges several into one, and relabels fixed-length bytes as INT96.

A footer is the struct FileMetaData of the Parquet format in Thrift's compact protocol. It is decoded without knowledge
of its schema, changed in a few places, and encoded again, so everything else from the writer of the files is kept:

    FileMetaData    2 schema: list<SchemaElement>   3 num_rows: i64   4 row_groups: list<RowGroup>
    SchemaElement   1 type: i32   2 type_length: i32   6 converted_type   10 logicalType
    RowGroup        1 columns: list<ColumnChunk>   5 file_offset: i64   7 ordinal: i16
    ColumnChunk     2 file_offset: i64   3 meta_data: ColumnMetaData   4, 6 offsets of the page indexes
    ColumnMetaData  1 type: i32   9 data_page_offset   10 index_page_offset   11 dictionary_page_offset: i64
"""

from __future__ import annotations

from collections.abc import Sequence

from morrow.engine.format.thrift import I16, I32, I64, LIST, STRUCT, Items, Struct, decode, encode
from morrow.writers.files.formats.parquet_types import INT96_WIDTH

FIXED_LEN_BYTE_ARRAY, INT96 = 7, 3

SCHEMA, NUM_ROWS, ROW_GROUPS = 2, 3, 4
ELEMENT_TYPE, ELEMENT_LENGTH, ELEMENT_CONVERTED, ELEMENT_LOGICAL = 1, 2, 6, 10
GROUP_COLUMNS, GROUP_OFFSET, GROUP_ORDINAL = 1, 5, 7
CHUNK_OFFSET, CHUNK_METADATA, CHUNK_OFFSETS = 2, 3, (2, 4, 6)
METADATA_TYPE, METADATA_OFFSETS = 1, (9, 10, 11, 14)


def merge_footers(parts: Sequence[tuple[int, bytes]], *, int96: bool) -> bytes:
    """Returns the footer of a file that has the row groups of several files, one after another.

    Args:
        parts: for each file the number of bytes between its magic and its footer, and that footer.
        int96: columns of 12 fixed bytes, other than decimals, become INT96.
    """
    if len(parts) == 1 and not int96:
        return parts[0][1]
    footers = [decode(footer) for _, footer in parts]
    merged, rows, shift = footers[0], 0, 0
    groups: list[Struct] = []
    for footer, (length, _) in zip(footers, parts, strict=True):
        for group in footer[ROW_GROUPS][1]:
            _move(group, shift, len(groups))
            groups.append(group)
        rows += footer[NUM_ROWS][1]
        shift += length
    merged[NUM_ROWS] = (I64, rows)
    merged[ROW_GROUPS] = (LIST, Items(STRUCT, groups))
    if int96:
        _relabel(merged)
    return encode(merged)


def _move(group: Struct, shift: int, ordinal: int) -> None:
    _add(group, (GROUP_OFFSET,), shift)
    group[GROUP_ORDINAL] = (I16, ordinal)
    for chunk in group[GROUP_COLUMNS][1]:
        _add(chunk, CHUNK_OFFSETS, shift)
        _add(chunk[CHUNK_METADATA][1], METADATA_OFFSETS, shift)


def _add(node: Struct, fields: Sequence[int], shift: int) -> None:
    """Adds `shift` to offsets; offset 0 stands for none where a writer fills the required member."""
    for field in fields:
        if field in node and node[field][1]:
            node[field] = (I64, node[field][1] + shift)


def _relabel(footer: Struct) -> None:
    leaves = [node for node in footer[SCHEMA][1] if ELEMENT_TYPE in node]
    nanos = [
        leaf[ELEMENT_TYPE][1] == FIXED_LEN_BYTE_ARRAY
        and leaf[ELEMENT_LENGTH][1] == INT96_WIDTH
        and ELEMENT_LOGICAL not in leaf
        and ELEMENT_CONVERTED not in leaf
        for leaf in leaves
    ]
    for leaf, is_nanos in zip(leaves, nanos, strict=True):
        if is_nanos:
            leaf[ELEMENT_TYPE] = (I32, INT96)
            del leaf[ELEMENT_LENGTH]
    for group in footer[ROW_GROUPS][1]:
        for chunk, is_nanos in zip(group[GROUP_COLUMNS][1], nanos, strict=True):
            if is_nanos:
                chunk[CHUNK_METADATA][1][METADATA_TYPE] = (I32, INT96)
