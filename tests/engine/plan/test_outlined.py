"""A plan of entries that were decoded elsewhere, without statistics, is the plan of this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import morrow
from morrow.engine.errors import MorrowError, Unsupported
from morrow.engine.format.manifest_columns import STATISTICS
from morrow.engine.names import KEYS_MATCH, VALUES_MATCH
from morrow.engine.plan.entries import Decoded
from morrow.engine.plan.fallback import plan_with_fallback
from morrow.engine.plan.manifests import manifests_of
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.outlined import outlined
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.scans.table_scan import Scan, planned_with
from tests.support.table_factory import TableFactory

SAMPLE = (
    *("dv_pk", "branches", "bucket_rescale_partition", "evolve_with_dv", "dv_pk_orc", "file_index_file", "types_orc"),
    *("stats_truncate3_dense", "manifest_delete_drop_stats", "append_overwrite", "data_evolution", "key_decimal"),
)
VALUES = {"INT": "2", "BIGINT": "2", "STRING": "'b'", "DATE": "DATE '2024-01-02'"}


def by_manifest(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
    """Decodes each manifest by itself, as tasks do that know nothing of the others."""
    parts = [outlined(metadata, request, manifests[number]) for number in range(manifests.height)]
    return Decoded(pl.concat([part.frame for part in parts]), sum(part.rows for part in parts))


def both(scan: Scan) -> tuple[object, object]:
    """Returns the plans made here and of entries from elsewhere, or their errors, as what is told of them."""
    return tuple(_told(scan, outlines) for outlines in (None, by_manifest))  # type: ignore[return-value]  # two


def _told(scan: Scan, outlines: object) -> object:
    morrow.clear_caches()
    try:
        plan = plan_with_fallback(TableMetadata(scan.store, scan.title), scan.request, outlines)  # type: ignore[arg-type]
    except MorrowError as error:
        return type(error), str(error)
    return [(part, part.steps, part.file_fields, _bounds(part)) for part in plan.parts]


def _bounds(plan: ScanPlan) -> list[tuple[object, ...]]:
    return [(each.partition, each.key_low, each.key_high) for each in plan.sections]


@pytest.mark.parametrize("case", SAMPLE)
def test_java_tables(golden_root: Path, case: str) -> None:
    table = morrow.open(golden_root / "public" / case / "warehouse" / "db.db" / "t")
    fields = table.scan().fields
    texts = [f'"{f.name}" > {VALUES[kind]}' for f in fields if (kind := f.type.text().split()[0]) in VALUES]
    for text in (None, *texts[:3]):
        here, elsewhere = both(table.scan(filter=text))
        assert elsewhere == here


def keyed(path: Path, seed: int) -> TableFactory:
    """Makes a table of files that overlap or not, in partitions and buckets, some of which were deleted again."""
    table = TableFactory(
        path, [("p", "INT"), ("id", "INT"), ("v", "BIGINT")], ["p", "id"], ["p"], {"bucket": "2", "file.format": "orc"}
    )
    random = np.random.default_rng(seed)
    held = []
    for _ in range(4):
        count = int(random.integers(5, 40))
        parts, low = random.integers(0, 3, count), random.integers(0, 100, count)
        high, values = low + random.integers(0, 20, count), random.integers(0, 50, count)
        held += table.fake_files(
            pa.table({"p": parts, "id": low, "v": values}),
            pa.table({"p": parts, "id": high, "v": values + 5}),
            partitions=[{"p": int(part)} for part in parts],
            buckets=random.integers(0, 2, count),
            levels=random.integers(0, 3, count),
        )
        for _ in range(3):
            table.delete_file(held.pop(int(random.integers(len(held)))))
        table.commit(entries_per_manifest=7)
    return table


@pytest.mark.parametrize("seed", range(4))
def test_random_tables(tmp_path: Path, seed: int) -> None:
    table = morrow.open(keyed(tmp_path / "t", seed).path)
    of_keys = "p = 1", "id = 17", "p IN (0, 2) AND id BETWEEN 30 AND 40", "p > 7"
    for text in (None, *of_keys, "v > 45", "v < 10 OR p = 1"):
        here, elsewhere = both(table.scan(filter=text))
        assert elsewhere == here


def test_what_statistics_tell_takes_their_place(tmp_path: Path) -> None:
    table = TableFactory(tmp_path / "t", [("id", "INT"), ("v", "INT")], ["id"])
    bounds = [(1, 5, 10, 20), (3, 8, 30, 40), (9, 9, 10, 20)]
    for low, high, least, most in bounds:
        table.fake_files(pa.table({"id": [low], "v": [least]}), pa.table({"id": [high], "v": [most]}))
    table.commit()
    scan = morrow.open(table.path).scan(filter="id < 9 AND v < 25")
    seen: list[pl.DataFrame] = []

    def kept(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
        decoded = outlined(metadata, request, manifests)
        seen.append(decoded.frame)
        return decoded

    scan = planned_with(scan, kept)
    (frame,) = seen
    assert not {*STATISTICS} & {*frame.columns}
    assert frame[KEYS_MATCH].to_list() == [True, True, False]
    assert frame[VALUES_MATCH].to_list() == [True, False, False]
    # The second file may hold newer rows of the keys of the first: its values alone leave it in.
    assert len(scan.plan.files) == 2


def test_of_damaged_tables_the_error_is_the_same(tmp_path: Path) -> None:
    table = morrow.open(keyed(tmp_path / "t", 1).path)
    scan = table.scan(filter="id = 17")
    assert scan.request.snapshot is not None
    metadata = TableMetadata(scan.store, scan.title)
    manifest = Path(metadata.paths.manifest(manifests_of(metadata, scan.request.snapshot)["_FILE_NAME"][1]))
    manifest.write_bytes(manifest.read_bytes()[:-9])
    here, elsewhere = both(scan)
    assert elsewhere == here
    assert "CorruptFile" in str(here)

    manifest.unlink()
    here, elsewhere = both(scan)
    assert elsewhere == here
    assert "FileMissing" in str(here)


def test_a_lost_entry_is_found_by_the_rows_that_the_snapshot_counts(tmp_path: Path) -> None:
    scan = morrow.open(keyed(tmp_path / "t", 2).path).scan()

    def lossy(metadata: TableMetadata, request: ScanRequest, manifests: pl.DataFrame) -> Decoded:
        return outlined(metadata, request, manifests[1:])

    with pytest.raises(Unsupported, match="name files with"):
        planned_with(scan, lossy)
