"""`Table.mark_partition_done`: a file ``_SUCCESS`` in the folder of a partition."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from tests.support.written import new_table, rows


def test_success_files(tmp_path: Path) -> None:
    table = new_table(tmp_path, "d DATE, h STRING, v INT", by=["d", "h"])
    day = dt.date(2024, 1, 2)
    table.append({"d": [day], "h": ["ü/=%"], "v": [1]})
    (folder,) = Path(table.path).glob("d=*/h=*")
    assert table.mark_partition_done({"d": "2024-01-02", "h": "ü/=%"}, {"d": day}) == [
        f"{folder}/_SUCCESS",
        f"{folder.parent}/_SUCCESS",
    ]
    made = json.loads((folder / "_SUCCESS").read_text())
    assert made["creationTime"] == made["modificationTime"]
    table.mark_partition_done({"d": day, "h": "ü/=%"})
    again = json.loads((folder / "_SUCCESS").read_text())
    assert again["creationTime"] == made["creationTime"] <= again["modificationTime"]
    table.remove_orphan_files(dry_run=False)
    assert (folder / "_SUCCESS").exists()
    assert rows(table) == [(day, "ü/=%", 1)]

    for partition, problem in (
        ({"h": "1"}, "names no folder"),
        ({}, "names no folder"),
        ({"x": 1}, "'x' is no partition column"),
    ):
        with pytest.raises(InvalidArgument, match=problem):
            table.mark_partition_done({"d": day}, partition)
    with pytest.raises(InvalidArgument, match="name the partitions"):
        table.mark_partition_done()
    table.alter.set_options({"partition.mark-done-action": "success-file,done-partition"})
    with pytest.raises(Unsupported, match="'done-partition'"):
        table.mark_partition_done({"d": day})
