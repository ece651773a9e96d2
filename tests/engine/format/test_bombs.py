"""Small files that decompress to gigabytes are refused before memory is allocated for them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from morrow.engine.errors import CorruptFile
from morrow.engine.format.manifest import decode_manifest_list
from morrow.engine.format.manifest_encoder import MANIFEST_LIST
from tests.support.table_factory import AVRO

SYNC = bytes(16)
BYTES = 3 << 23
"""Size of each bomb when decompressed."""

EMPTY = bytes(12)
STATS = {"_MIN_VALUES": EMPTY, "_MAX_VALUES": EMPTY, "_NULL_COUNTS": []}
ROW: dict[str, Any] = {
    "_VERSION": 2,
    "_FILE_NAME": "manifest-0",
    "_FILE_SIZE": 1,
    "_NUM_ADDED_FILES": 1,
    "_NUM_DELETED_FILES": 0,
    "_PARTITION_STATS": STATS,
    "_SCHEMA_ID": 0,
}


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data))


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "zstandard": zstd,
    "deflate": deflated,
}


def avro_bomb(codec: str, name: str = "manifest-0") -> bytes:
    """Repeat one manifest in a manifest list until its rows take `BYTES`."""
    row = io.BytesIO()
    fastavro.schemaless_writer(row, AVRO["manifest_list"], ROW | {"_FILE_NAME": name})
    rows = max(BYTES // len(row.getvalue()), 1)
    payload = PACKED[codec](row.getvalue() * rows)
    head = io.BytesIO()
    metadata = {"avro.schema": json.dumps(AVRO["manifest_list"]).encode(), "avro.codec": codec.encode()}
    fastavro.schemaless_writer(head, {"type": "map", "values": "bytes"}, metadata)
    numbers = io.BytesIO()
    for number in (rows, len(payload)):
        fastavro.schemaless_writer(numbers, "long", number)
    return b"Obj\x01" + head.getvalue() + SYNC + numbers.getvalue() + payload + SYNC


def table_bomb() -> pa.Table:
    rows = 1 << 18
    columns = {
        name: pa.repeat(pa.scalar(value, MANIFEST_LIST.arrow.field(name).type), rows)
        for name, value in {**dict.fromkeys(MANIFEST_LIST.arrow.names), **ROW}.items()
    }
    return pa.table(columns)


def parquet_bomb() -> bytes:
    sink = io.BytesIO()
    pq.write_table(table_bomb(), sink, compression="zstd")
    return sink.getvalue()


def orc_bomb() -> bytes:
    sink = io.BytesIO()
    orc.write_table(table_bomb(), sink, compression="zstd", dictionary_key_size_threshold=1.0)
    return sink.getvalue()


BOMBS: dict[str, Callable[[], bytes]] = {
    **{codec: lambda codec=codec: avro_bomb(codec) for codec in PACKED},  # type: ignore[misc]  # bound early
    "one row": lambda: avro_bomb("zstandard", "a" * BYTES),
    "parquet": parquet_bomb,
    "orc": orc_bomb,
}

READ_IT = """
import resource, sys, time
from morrow.engine.errors import CorruptFile
from morrow.engine.format.manifest import decode_manifest_list
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
for path in sys.argv[1:]:
    data, before, started = open(path, "rb").read(), peak(), time.process_time()
    try:
        decode_manifest_list(data, path)
    except CorruptFile:
        print(peak() - before, round(time.process_time() - started, 1))
"""


def test_bombs_take_little_memory_and_time(tmp_path: Path) -> None:
    for name, make in BOMBS.items():
        (tmp_path / name).write_bytes(make())
        assert (tmp_path / name).stat().st_size < 300_000
    paths = [str(tmp_path / name) for name in BOMBS]
    run = subprocess.run([sys.executable, "-c", READ_IT, *paths], capture_output=True, text=True, check=True)
    costs = [tuple(map(float, line.split())) for line in run.stdout.splitlines()]
    assert len(costs) == len(BOMBS)
    assert max(megabytes for megabytes, _ in costs) < 100
    assert max(seconds for _, seconds in costs) < 3


def test_a_manifest_list_of_many_equal_rows_is_none() -> None:
    with pytest.raises(CorruptFile, match="rows are more than"):
        decode_manifest_list(avro_bomb("zstandard"), "f")
