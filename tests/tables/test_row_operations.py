"""Properties of operations, and the names of those who commit."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import morrow
from morrow.engine.errors import InvalidArgument
from morrow.tables.row_operations import RowOperations
from tests.support.written import new_table

WHO = {"job": "nightly", "ticket": "é-7"}
OPERATIONS: dict[str, Callable[[morrow.Table], object]] = {
    "append": lambda t: t.append({"id": [3], "dt": ["a"], "v": [1]}, properties=WHO),
    "upsert": lambda t: t.upsert({"id": [1], "dt": ["a"], "v": [2]}, properties=WHO),
    "delete": lambda t: t.delete("id = 1", properties=WHO),
    "update": lambda t: t.update({"v": 5}, "id = 1", properties=WHO),
    "merge": lambda t: (
        t.merge({"id": [1], "dt": ["a"], "v": [9]}, ["id", "dt"], properties=WHO).when_matched_update().execute()
    ),
    "overwrite": lambda t: t.overwrite({"id": [9], "dt": ["a"], "v": [9]}, properties=WHO),
    "truncate": lambda t: t.truncate(properties=WHO),
    "drop_partition": lambda t: t.drop_partition({"dt": "a"}, properties=WHO),
    "drop_partitions": lambda t: t.drop_partitions({"dt": "a"}, properties=WHO),
    "compact": lambda t: t.compact(full=True, properties=WHO),
    "rescale": lambda t: t.rescale(1, properties=WHO),
    "compact_manifests": lambda t: t.compact_manifests(properties=WHO),
    "rewrite_file_index": lambda t: t.rewrite_file_index(properties=WHO),
    "analyze": lambda t: t.analyze(["v"], properties=WHO),
}


def new_filled_table(path: Path) -> morrow.Table:
    """Make a keyed table of two commits, with an index that its files lack."""
    options = {"bucket": "1", "write-only": "true"}
    table = new_table(path, "id INT, dt STRING, v BIGINT", keys=["id", "dt"], by=["dt"], options=options)
    table.append({"id": [1, 2], "dt": ["a", "b"], "v": [1, 1]})
    table.append({"id": [1, 2], "dt": ["a", "b"], "v": [2, 2]})
    table.alter.set_options({"file-index.bloom-filter.columns": "v", "manifest.full-compaction-threshold-size": "1 b"})
    return table


def test_all_operations_are_here() -> None:
    takes = {
        name
        for name, method in inspect.getmembers(RowOperations, inspect.isfunction)
        if "properties" in inspect.signature(method).parameters and not name.startswith("_")
    }
    indexes = {"create_global_index", "drop_global_index"}
    of_row_ids = {"update_rows", "reassign_row_ids", "materialize_deletion_vectors"}
    assert takes == OPERATIONS.keys() | indexes | of_row_ids


@pytest.mark.parametrize("name", OPERATIONS)
def test_properties_are_in_the_snapshot_and_in_the_history(tmp_path: Path, name: str) -> None:
    table = new_filled_table(tmp_path)
    OPERATIONS[name](table)
    newest = table.history(1).row(0, named=True)
    assert newest["snapshot_id"] > 2
    assert json.loads(newest["properties"]) == WHO
    assert table.history()["properties"].to_list()[-2:] == [None, None]


def test_properties_map_text_to_text(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="the property 'n'"):
        new_table(tmp_path, "id INT").append({"id": [1]}, properties={"n": 1})  # type: ignore[dict-item]  # wrong on purpose


def test_commit_users_name_the_user_the_host_and_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from morrow.writers import target

    monkeypatch.setattr("getpass.getuser", lambda: "anna maria")
    monkeypatch.setattr("socket.gethostname", lambda: "host/1")
    monkeypatch.setattr("sys.argv", ["/jobs/load orders.py", "--all"])
    target._describe_process.cache_clear()
    table = new_table(tmp_path, "id INT")
    users = [table.append({"id": [n]}).commit_user for n in range(2)]  # type: ignore[union-attr]  # both commit
    table.alter.set_options({"commit.user-prefix": "etl"})
    prefixed = table.append({"id": [3]})
    target._describe_process.cache_clear()
    assert all(re.fullmatch(r"anna-maria@host-1-load-orders\.py_[0-9a-f-]{36}", user) for user in users)
    assert users[0] != users[1]
    assert prefixed is not None
    assert prefixed.commit_user.startswith("etl_")
