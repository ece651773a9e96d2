"""The same history by Java and by Morrow leaves the same logical metadata: kinds, levels, counts, keys, statistics.

Names, sizes and times differ, and so may the order of entries. Compaction depends on file sizes, so the tables have
enough rows that footers hardly matter.
"""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import morrow
from tests.interop.histories import Case, history
from tests.interop.jvm import JavaPaimon
from tests.interop.players import Java, Morrow
from tests.interop.test_histories import CASES, IS_LONG

KEYS, LEAST_ROWS = 1_500, 500

FIXED = [case for case in CASES if case.keyed and case.bucket != "-1"][:: 1 if IS_LONG else 3]
"""Every third case with a key and without dynamic buckets, whose keys depend on the order of arrival in a writer.

`tests/writers/test_golden_metadata.py` compares tables without keys, and other tables with keys, with Java's metadata.
"""


@pytest.mark.parametrize("case", FIXED, ids=str)
def test_metadata(case: Case, java: JavaPaimon, tmp_path: Path) -> None:
    by_morrow, by_java = Morrow(tmp_path / "morrow", case), Java(java, tmp_path / "java", case)
    by_morrow.create()
    by_java.create()
    for step in history(case, seed=4, steps=4, keys=KEYS, least=LEAST_ROWS):
        by_morrow.play(step)
        by_java.play(step)

    assert _snapshots(java, by_morrow.path) == _snapshots(java, by_java.path)


def test_java_reads_what_analyze_commits(java: JavaPaimon, tmp_path: Path) -> None:
    """Java parses the bounds to the types of the columns, so malformed text would be an error."""
    columns = (
        "p STRING, g BOOLEAN, v BIGINT, d DATE, x DECIMAL(20, 3), f DOUBLE, b BYTES, t TIMESTAMP(3), l TIMESTAMP_LTZ(6)"
    )
    table = morrow.Catalog(tmp_path).create_table("db.t", schema=columns)
    noon = dt.datetime(2026, 5, 1, 12, 0, 0, 120_000)
    row = (
        "ä",
        True,
        -1,
        dt.date(1969, 12, 31),
        Decimal("-2.5"),
        float("nan"),
        b"xy",
        noon,
        noon.replace(tzinfo=dt.UTC),
    )
    table.append(pa.table({name: pa.array([value, None]) for name, value in zip(table.schema.names, row)}))
    snapshot = table.analyze(None)
    assert snapshot is not None
    seen = java.ask("metadata", path=table.path)[-1]
    assert (seen["kind"], seen["total_record_count"], seen["files"]) == (
        "ANALYZE",
        2,
        _snapshots(java, table.path)[0]["files"],
    )
    facts = json.loads(seen["statistics"])
    assert (facts["snapshotId"], facts["mergedRecordCount"], len(facts["colStats"])) == (1, 2, len(row))
    stored = table.system("statistics").to_arrow().to_pylist()[0]
    assert json.loads(stored["colstat"]) == facts["colStats"]


def _snapshots(java: JavaPaimon, path: Path | str) -> list[dict[str, Any]]:
    """Read the metadata as Java sees it, sorted independently of file names."""
    snapshots: list[dict[str, Any]] = java.ask("metadata", path=path)
    for snapshot in snapshots:
        for entries in ("files", "indexes"):
            for entry in snapshot[entries]:
                entry.get("cardinalities", []).sort()
            snapshot[entries].sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    return snapshots
