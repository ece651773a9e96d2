"""Thrift's compact protocol, parsed and written again without its schema."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.format.parquet_metadata import decode_thrift, encode_thrift
from morrow.writers.files.formats.parquet_schema import merge_footers


def parquet(table: pa.Table, **options: Any) -> tuple[bytes, bytes]:
    """Write a Parquet file, and return the bytes before its footer and the footer."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    data = sink.getvalue()
    length = int.from_bytes(data[-8:-4], "little")
    return data[4 : -8 - length], data[-8 - length : -8]


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=3),
        st.one_of(
            st.lists(st.integers(-(2**63), 2**63 - 1), min_size=20, max_size=20),
            st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=20, max_size=20),
            st.lists(st.lists(st.floats(allow_nan=False), max_size=2), min_size=20, max_size=20),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([1, 7, 20]),
)
def test_footers_are_encoded_as_they_were(columns: dict[str, list[Any]], row_group: int) -> None:
    _, footer = parquet(pa.table(columns), row_group_size=row_group)
    assert encode_thrift(decode_thrift(footer)) == footer


def test_one_footer_for_the_row_groups_of_several_files() -> None:
    tables = [
        pa.table({"a": [1, 2], "b": ["x", None]}),
        pa.table({"a": [3], "b": ["y"]}),
        pa.table({"a": [4], "b": ["z"]}),
    ]
    parts = [parquet(table) for table in tables]
    footer = merge_footers([(len(body), tail) for body, tail in parts], int96=False)
    bodies = b"".join(body for body, _ in parts)
    merged = b"".join([b"PAR1", bodies, footer, len(footer).to_bytes(4, "little"), b"PAR1"])
    assert pq.read_table(io.BytesIO(merged)).equals(pa.concat_tables(tables))


@pytest.mark.parametrize("width", [12, 13])
def test_only_12_bytes_without_a_meaning_become_int96(width: int) -> None:
    table = pa.table({"t": pa.array([b"\0" * width], pa.binary(width)), "d": pa.array([1], pa.decimal128(28, 2))})
    body, footer = parquet(table, write_statistics=False)
    changed = merge_footers([(len(body), footer)], int96=True)
    merged = b"".join([b"PAR1", body, changed, len(changed).to_bytes(4, "little"), b"PAR1"])
    schema = pq.ParquetFile(io.BytesIO(merged)).schema
    assert [schema.column(i).physical_type for i in range(2)] == [
        "INT96" if width == 12 else "FIXED_LEN_BYTE_ARRAY",
        "FIXED_LEN_BYTE_ARRAY",
    ]
