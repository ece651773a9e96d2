"""The data files of golden tables, written again: the metadata equals Java's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from morrow.engine.format.manifest import decode_manifest
from morrow.engine.format.manifest_entries import DataFileMeta, EntryKind, ManifestEntry, to_entries
from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, TableSchema
from morrow.engine.io.local import LocalStore
from morrow.engine.options import parse_write_options
from morrow.engine.plan.metadata import TableMetadata
from morrow.readers.files import FileSource as Source
from morrow.readers.files import scan
from morrow.writers.files.data_files import Placement, build_file_path, write_files
from morrow.writers.target import WriteTarget
from tests.support.profile import every

pytestmark = pytest.mark.golden

CASES = (
    "dv_pk", "evolve_pk_orc", "evolve_pk_parquet", "file_index_embedded", "file_index_file", "file_index_pk_embedded",
    "file_index_pk_file", "fmt_per_level", "key_bigdecimal", "key_char", "key_double", "key_string", "key_timestamp6",
    "pk_big", "stats_append_types", "stats_counts_dense", "stats_counts_sparse", "stats_full_dense", "stats_mixed",
    "stats_none_dense", "stats_none_sparse", "stats_truncate16_dense", "stats_truncate3_sparse", "thin_mode_avro",
    "thin_mode_orc", "thin_mode_parquet", "types_append_parquet", "types_avro", "types_multiset", "types_parquet",
    "types_variant", "types_wide",
)  # fmt: skip
OWN = ("file_name", "file_size", "creation_time", "external_path", "extra_files")
"""Fields that may differ between two writers of the same rows."""


@pytest.mark.parametrize("case", every(2, CASES))
def test_metadata_is_what_java_wrote(case: str, golden_root: Path, tmp_path: Path) -> None:
    table = golden_root / "public" / case / "warehouse" / "db.db" / "t"
    written = 0
    for entry in _files(table):
        (source,) = table.rglob(entry.file.file_name)
        target, frame = _opened(table, source, entry.file, tmp_path)
        if source.suffix[1:] != target.write.format_of(entry.file.level):
            continue  # the file format was changed after this file
        place = Placement(entry.partition, entry.bucket)
        (file,) = write_files(
            target,
            place,
            [frame],
            level=entry.file.level,
            source=entry.file.file_source,
            first_sequence=entry.file.min_sequence_number,
        )
        for name in set(file.__struct_fields__) - set(OWN):
            assert getattr(file, name) == getattr(entry.file, name), f"{name} of {source.name}"
        for ours, java in zip(file.extra_files, entry.file.extra_files, strict=True):
            assert Path(build_file_path(target, place, ours)).read_bytes() == source.with_name(java).read_bytes()
        written += 1
    assert written


def _files(table: Path) -> Iterator[ManifestEntry]:
    """Yield each data file that still exists, once."""
    seen: set[str] = set()
    for path in sorted((table / "manifest").glob("manifest-*")):
        if path.name.startswith("manifest-list"):
            continue
        for entry in to_entries(decode_manifest(path.read_bytes(), str(path))):
            name = entry.file.file_name
            if entry.kind is EntryKind.ADD and name not in seen and any(table.rglob(name)):
                seen.add(name)
                yield entry


def _opened(table: Path, source: Path, file: DataFileMeta, root: Path) -> tuple[WriteTarget, pl.DataFrame]:
    """Open a table for writing at the file's schema, and read the file's rows."""
    schema: TableSchema = TableMetadata(LocalStore(), str(table)).schema(file.schema_id)
    metadata = TableMetadata(LocalStore(), str(root))
    write = parse_write_options(schema.options, keyed=bool(schema.primary_keys), where=metadata.where)
    target = WriteTarget(metadata, schema, metadata.options(schema), write)
    system = (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD) if target.keyed else ()
    stored = Source(LocalStore(), str(source), file.file_size, file.row_count, source.suffix[1:], schema.options)
    return target, scan([stored], (*schema.fields, *system)).collect()
