"""File formats are named in one place, and each has a reader and a writer of the same name."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.format.file_formats import BUILT_IN, WHEELS, find_format, get_format, get_written_format
from morrow.readers.files.registry import BUILT_IN as READERS
from morrow.readers.files.registry import find_file_reader
from morrow.writers.files.encoders import BUILT_IN as WRITERS
from morrow.writers.files.encoders import find_file_writer

ROOT = Path(__file__).parents[3]

HOMES = {
    "engine/format/file_formats.py": "declares them",
    "readers/files/registry.py": "names their readers",
    "writers/files/encoders.py": "names their writers",
}
ELSEWHERE = {
    "engine/format/manifest_encoder.py": "manifests have codecs of their own",
    "engine/format/schema.py": "the format of tables that say none, in old versions",
    "engine/options/declared/": "defaults of options",
    "readers/files/page_checksums.py": "only Parquet has checksums of pages",
    "morrow/spark/reading/choice.py": "Spark's own scan reads Parquet",
    "morrow/spark/catalogs/ddl.py": "a hint names one",
    "morrow/procedures/files.py": "a folder of Parquet files is migrated",
    "readers/execution/plain_sql.py": "plain DuckDB reads Parquet with the numbers of rows",
    "writers/keyed/postpone_bucket.py": "postponed rows are Avro",
    "engine/plan/folder_table.py": "which formats the files of a format table may have",
    "readers/execution/format_tables.py": "Hive's Parquet files count nanoseconds",
    "writers/files/formats/orc.py": "an error names a format that has nanoseconds",
    "writers/ingest/row_files.py": "formats of files to import",
    "writers/ingest/sources.py": "an error suggests how to read a file by its suffix",
    "writers/operations/format_table.py": "text files, codecs by format, and what Hive reads in Parquet",
    "engine/catalog/hive/tables.py": "Hive tells the format of files by classes",
    "morrow/cli/": "formats of input and output",
    "morrow/statements/copy_into.py": "formats of COPY INTO",
    "morrow/spark/procedures.py": "formats of the tables of Spark",
}
"""The modules that name a format for a reason other than the format itself."""

NAMED = re.compile(r"""["'](parquet|orc|avro|csv)["']""")


def test_only_three_places_name_a_format() -> None:
    sources = [path for folder in ("engine", "readers", "writers", "morrow") for path in (ROOT / folder).rglob("*.py")]
    inside = {str(path.relative_to(ROOT)) for path in sources if NAMED.search(path.read_text())}
    named = {name for name in inside if not name.startswith(("morrow/engine", "morrow/readers", "morrow/writers"))}

    assert len(sources) > 100
    assert {name for name in named if not name.startswith(tuple(ELSEWHERE))} == set(HOMES)


def test_every_format_has_a_reader() -> None:
    assert set(READERS) == set(BUILT_IN)
    for name in READERS:
        reader = find_file_reader(name, "/t")
        assert (reader.decode is None) != (reader.scan is None)
        assert reader is find_declared("readers", name)


def test_every_format_that_says_its_types_has_a_writer() -> None:
    assert set(WRITERS) == {name for name, each in BUILT_IN.items() if each.lacks is not None}
    for name in WRITERS:
        assert find_file_writer(name, "/t") is find_declared("writers", name)


def find_declared(layer: str, name: str) -> object:
    """Return the reader or writer in the module of a format; formats of libraries share one."""
    kind, package = layer[:-1].upper(), f"morrow.{layer}.files.formats"
    if name in WHEELS:
        return getattr(import_module(f"{package}.wheel_files"), f"{kind}S")[name]
    return getattr(import_module(f"{package}.{name}"), kind)


def test_formats_that_are_unknown() -> None:
    assert find_format("carbon") is None
    with pytest.raises(Unsupported, match=r"'carbon'.*known are parquet, orc, avro, json, csv, text, blob, lance"):
        get_format("carbon", "/t")
    with pytest.raises(Unsupported, match=r"'csv'.*Morrow writes parquet, orc, avro"):
        get_written_format("csv", "/t")
    with pytest.raises(Unsupported, match="'carbon'"):
        find_file_reader("carbon", "/t")
    with pytest.raises(Unsupported, match="'csv'"):
        find_file_writer("csv", "/t")
