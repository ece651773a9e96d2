"""The tasks of a write, without Spark."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import morrow
from morrow.spark.job.wire import TableAccess, decode_messages
from morrow.spark.writing import tasks
from morrow.spark.writing.tasks import WriteJob
from morrow.writers.commit.attempt_log import AttemptLog
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.target import WriteTarget
from tests.support.s3_server import BUCKET, s3_server
from tests.support.written import new_table
from tests.support.written import rows as rows_of


@pytest.mark.parametrize("taken", ["first", "second"])
def test_of_two_attempts_that_both_end_one_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: str
) -> None:
    """When Spark repeats a slow task, the driver gets the result of a single attempt."""
    table = new_table(tmp_path, "id BIGINT, v BIGINT", keys=["id"], options={"bucket": 2})
    target = WriteTarget.of(table._metadata)
    attempt_log = AttemptLog(target.store, target.metadata.root)
    job = WriteJob(TableAccess.of(target, attempt_log.folder), ("id", "v"))
    attempt_log.begin()
    results = {}
    for attempt in ("first", "second"):
        monkeypatch.setattr(tasks, "get_attempt_name", lambda attempt=attempt: attempt)
        [batch] = tasks.write(job, [pa.record_batch({"c0": [1, 2, 3], "c1": [1, 2, 3]})])
        results[attempt] = decode_messages(batch.column("messages")[0].as_py())
    assert attempt_log.close([taken]) == 2
    TableCommit(target).commit(results[taken])
    assert rows_of(table) == [(1, 1), (2, 2), (3, 3)]
    assert len(list(Path(table.path).rglob("data-*"))) == 2


def test_folders_outside_of_the_table_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is the task's result, so that Spark does not try again and the driver raises it unchanged."""
    outside = {
        "data-file.external-paths": (tmp_path / "other").as_uri(),
        "data-file.external-paths.strategy": "round-robin",
    }
    table = new_table(tmp_path / "t", "id BIGINT", options=outside)
    target = WriteTarget.of(table._metadata)
    attempt_log = AttemptLog(target.store, target.metadata.root)
    attempt_log.begin()
    monkeypatch.setattr(tasks, "get_attempt_name", lambda: "first")
    job = WriteJob(TableAccess.of(target, attempt_log.folder), ("id",))
    [batch] = tasks.write(job, [pa.record_batch({"c0": [1]})])
    assert "allowed_roots" in str(pickle.loads(batch.column("error")[0].as_py()))


def test_tasks_write_to_object_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """With deletion vectors, files of all kinds are written to and read from the store that logs them."""
    with s3_server() as options:
        catalog = morrow.Catalog(f"s3://{BUCKET}/warehouse", storage_options=options)
        table = catalog.create_table(
            "db.t",
            schema="id BIGINT, v BIGINT",
            primary_keys=["id"],
            options={"bucket": 1, "deletion-vectors.enabled": True},
        )
        for number, low in enumerate((0, 2)):
            monkeypatch.setattr(tasks, "get_attempt_name", lambda number=number: str(number))
            target = WriteTarget.of(table._metadata)
            attempt_log = AttemptLog(target.store, target.metadata.root)
            job = WriteJob(TableAccess.of(target, attempt_log.folder), ("id", "v"))
            attempt_log.begin()
            [batch] = tasks.write(job, [pa.record_batch({"c0": range(low, low + 4), "c1": [number] * 4})])
            assert batch.column("error")[0].as_py() is None
            assert attempt_log.close([str(number)]) == 0
            TableCommit(target).commit(decode_messages(batch.column("messages")[0].as_py()))
            assert target.store.list(attempt_log.folder) == []
        assert rows_of(table) == [(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 1)]
        assert "secret" not in repr(job)
