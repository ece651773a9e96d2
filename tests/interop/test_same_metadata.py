"""The same history by Java and by Morrow leaves the same logical metadata: kinds, levels, counts, keys, statistics.

Names, sizes and times differ, and so may the order of entries. What is compacted hangs on the sizes of files: there are
enough rows that these are not all footer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.histories import Case, history
from tests.interop.jvm import JavaPaimon
from tests.interop.players import Java, Morrow
from tests.interop.test_histories import CASES

KEYS, LEAST_ROWS = 1_500, 500

FIXED = [case for case in CASES if case.keyed and case.bucket != "-1"]
"""Tables with a key: those without are compared in `tests/writers/test_golden_metadata.py`. Which key goes to which
dynamic bucket hangs on the order of arrival within a writer, not on the format."""


@pytest.mark.parametrize("case", FIXED, ids=str)
def test_metadata(case: Case, java: JavaPaimon, tmp_path: Path) -> None:
    by_morrow, by_java = Morrow(tmp_path / "morrow", case), Java(java, tmp_path / "java", case)
    by_morrow.create()
    by_java.create()
    for step in history(case, seed=4, steps=4, keys=KEYS, least=LEAST_ROWS):
        by_morrow.play(step)
        by_java.play(step)

    assert _snapshots(java, by_morrow.path) == _snapshots(java, by_java.path)


def _snapshots(java: JavaPaimon, path: Path) -> list[dict[str, Any]]:
    """What Java sees in the metadata, files and indexes in an order that does not hang on their names."""
    snapshots: list[dict[str, Any]] = java.ask("metadata", path=path)
    for snapshot in snapshots:
        for entries in ("files", "indexes"):
            for entry in snapshot[entries]:
                entry.get("cardinalities", []).sort()
            snapshot[entries].sort(key=lambda entry: json.dumps(entry, sort_keys=True))
    return snapshots
