"""Data files by Java Paimon hold the rows that Java reads from their tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from morrow.engine.format.types import DataField, from_json_field
from morrow.engine.io.local import LocalStore
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.files import FileSource, scan, translate_errors, verify
from tests.support.canonical import assert_same_rows, normal_rows, rows_of

pytestmark = pytest.mark.golden

APPEND_TABLES = [
    "public/types_append_parquet",
    "public/types_append_orc",
    "public/types_append_avro",
    "public/types_nested_deep",
    "public/types_multiset",
    "public/types_variant",
    "public/fmt_json",
]


def file_fields(table: Path) -> list[DataField]:
    return [from_json_field(node) for node in json.loads((table / "schema" / "schema-0").read_text())["fields"]]


def sources(table: Path, format_: str) -> list[FileSource]:
    files = sorted(table.glob(f"bucket-*/*.{format_}"))
    return [FileSource(LocalStore(), str(file), file.stat().st_size, -1, format_) for file in files]


def data_format(table: Path) -> str:
    return next(table.glob("bucket-*/data-*")).suffix[1:]


@pytest.mark.parametrize("case", APPEND_TABLES)
def test_rows(golden_root: Path, case: str) -> None:
    folder = golden_root / case
    table = folder / "warehouse" / "db.db" / "t"
    fields, files = file_fields(table), sources(table, data_format(table))
    for file in files:
        verify(file, rows=True)

    with translate_errors(case):
        frame = scan(files, fields).collect()

    expected = [json.loads(line) for line in (folder / "expected" / "latest.jsonl").read_text().splitlines()]
    assert_same_rows(rows_of(to_arrow_table(frame, fields), fields), normal_rows(expected, fields), fields)


@pytest.mark.parametrize("codec", ["parquet_lz4", "parquet_gzip", "orc_lz4", "orc_snappy", "orc_none", "avro_snappy"])
def test_codecs(golden_root: Path, codec: str) -> None:
    """The files of a primary-key table hold all its rows and their older versions."""
    folder = golden_root / f"public/fmt_{codec}"
    table = folder / "warehouse" / "db.db" / "t"
    fields = file_fields(table)

    with translate_errors(codec):
        frame = scan(sources(table, data_format(table)), fields).collect()

    expected = [json.loads(line) for line in (folder / "expected" / "latest.jsonl").read_text().splitlines()]
    stored = {json.dumps(row) for row in rows_of(to_arrow_table(frame, fields), fields)}
    assert expected
    assert {json.dumps(row) for row in normal_rows(expected, fields)} <= stored


def test_blobs(golden_root: Path) -> None:
    folder = golden_root / "public/blob"
    table = folder / "warehouse" / "db.db" / "t"
    picture = file_fields(table)[2]

    frame = scan(sources(table, "blob"), [picture]).collect()

    expected = [json.loads(line)[2:] for line in (folder / "expected" / "latest.jsonl").read_text().splitlines()]
    assert_same_rows(rows_of(to_arrow_table(frame, [picture]), [picture]), expected, [picture])
