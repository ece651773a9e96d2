"""Tables reshaped by Morrow: Java Paimon reads the same rows, and can write, compact and expire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.interop.jvm import JavaPaimon
from tests.support.written import new_table, rows

INDEXED = {"file-index.bitmap.columns": "v", "file-index.bloom-filter.columns": "id"}


@pytest.mark.parametrize(
    ("keys", "options"),
    [
        (["p", "id"], {"bucket": 1}),
        (["p", "id"], {"bucket": 1, "deletion-vectors.enabled": "true"}),
        ([], {"bucket": -1, "deletion-vectors.enabled": "true"}),
    ],
    ids=["keyed", "keyed with deletion vectors", "append with deletion vectors"],
)
def test_java_goes_on_where_morrow_was(
    java: JavaPaimon, tmp_path: Path, keys: list[str], options: dict[str, Any]
) -> None:
    table = new_table(tmp_path, "p STRING, id BIGINT, v INT", keys=keys, by=["p"], options=options)
    path = Path(table.path)

    def same() -> list[tuple[Any, ...]]:
        by_java = sorted((p, int(i), int(v)) for p, i, v in java.read(path))
        assert by_java == rows(table)
        return by_java

    for number in range(3):
        table.append({"p": ["a", "b"] * 10, "id": list(range(number, number + 20)), "v": [number] * 20})
    table.delete("id = 5")
    if keys:
        table.alter.set_options({"bucket": 3})
        table.rescale(where="p = 'a'")
        same()
        table.rescale(partition={"p": "b"})
    assert table.compact_manifests() is not None
    before = same()
    table.alter.set_options({**INDEXED, "file-index.in-manifest-threshold": "64 b"})
    assert table.rewrite_file_index().files
    assert same() == before
    assert java.read(path, {"scan.snapshot-id": str(table.snapshots()[-2].id)})  # the earlier snapshot

    java.write(path, [["+I", "a", "100", "7"], ["+I", "c", "1", "1"]])
    assert len(same()) == len(before) + 2
    table.alter.unset_options("file-index.bloom-filter.columns")
    table.rewrite_file_index(where="p <> 'c'")
    same()
    java.ask("compact" if keys else "append_compact", path=path, full=True)
    after = same()
    java.ask("expire", path=path, retain_max=1, retain_min=1)
    assert same() == after

    lost = table.system("files").to_polars()["file_path"][0]
    Path(lost).unlink()
    assert table.remove_unexisting_files(dry_run=False) == [lost]
    assert len(same()) < len(after)
    java.write(path, [["+I", "a", "200", "7"]])
    same()
