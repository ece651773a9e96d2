"""Delta tables that share the data files and deletion vectors of Paimon tables, for readers of Delta tables.

The data files are hard links, so both tables read the same bytes. Columns that the schema does not name are not read.
The log has one version of Delta's protocol: https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyroaring

FEATURES = ["deletionVectors", "timestampNtz"]
MAGIC = 1681511377
"""The first bytes of a 64-bit bitmap in Roaring's portable format."""
VERSION = b"\x01"
"""The first byte of a deletion vector file."""
TYPES = {
    "BIGINT": "long",
    "INT": "integer",
    "DOUBLE": "double",
    "STRING": "string",
    "BOOLEAN": "boolean",
    "TIMESTAMP(6)": "timestamp_ntz",
}
"""Paimon type -> Delta type, for the columns of `bench.data`."""


def write(folder: Path, columns: Mapping[str, str], files: Iterable[tuple[Path, int, list[int]]]) -> None:
    """Write the table: columns with their Paimon types, and data files with their row counts and deleted positions."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    vectors = bytearray(VERSION)
    added = []
    for file, rows, dead in files:
        (folder / file.name).hardlink_to(file)
        bitmap = struct.pack("<i", MAGIC) + pyroaring.BitMap64(dead).serialize()
        vector = {
            "storageType": "p",
            "pathOrInlineDv": (folder / "vectors.bin").absolute().as_uri(),
            "offset": len(vectors),
            "sizeInBytes": len(bitmap),
            "cardinality": len(dead),
        }
        vectors += struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap))
        added.append({"add": _added(file, rows) | ({"deletionVector": vector} if dead else {})})
    (folder / "vectors.bin").write_bytes(vectors)
    actions = [_protocol(), _metadata(columns), *added]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def _protocol() -> dict[str, Any]:
    features = {"readerFeatures": FEATURES, "writerFeatures": FEATURES}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}


def _metadata(columns: Mapping[str, str]) -> dict[str, Any]:
    fields = [
        {"name": name, "type": TYPES[kind.removesuffix(" NOT NULL")], "nullable": True, "metadata": {}}
        for name, kind in columns.items()
    ]
    return {
        "metaData": {
            "id": "00000000-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [],
            "configuration": {"delta.enableDeletionVectors": "true"},
            "createdTime": 0,
        }
    }


def _added(file: Path, rows: int) -> dict[str, Any]:
    return {
        "path": file.name,
        "partitionValues": {},
        "size": file.stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": rows}),
    }
