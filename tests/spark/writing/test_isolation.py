"""Concurrent jobs of Spark: the later commit wins as a whole, and jobs that have read rows read them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import morrow
from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.spark.writing import job
from morrow.spark.writing.delete import delete
from morrow.spark.writing.job import Commit
from morrow.spark.writing.write import write
from morrow.writers.target import WriteTarget
from tests.support.written import new_table, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id BIGINT, a STRING, b STRING"
KINDS: dict[str, dict[str, object]] = {
    "key": {"bucket": 2},
    "vectors": {"bucket": 1, "deletion-vectors.enabled": True},
    "dynamic": {"bucket": -1},
    "partial-update": {"bucket": 1, "merge-engine": "partial-update"},
}


def target_of(table: morrow.Table) -> WriteTarget:
    return WriteTarget.of(TableMetadata(*resolve(table.path)))


def frame(spark: SparkSession, name: str, ids: range = range(6)) -> DataFrame:
    return spark.createDataFrame([(number, name, name) for number in ids], COLUMNS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_later_commit_wins_as_a_whole(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """Both jobs write before either commits, and a local upsert comes between the commits."""
    table = new_table(tmp_path, COLUMNS, keys=["id"], options=KINDS[kind])
    table.append({"id": [0, 1], "a": ["old"] * 2, "b": ["old"] * 2})
    target = target_of(table)
    first = job.write_files(frame(spark, "first"), target, None)
    second = job.write_files(frame(spark, "second", range(2, 8)), target, None)
    job.commit_messages(target, second, Commit())
    table.upsert({"id": [*range(8)], "a": ["local"] * 8, "b": ["local"] * 8})
    job.commit_messages(target, first, Commit())
    assert rows(table) == [*((n, "first", "first") for n in range(6)), *((n, "local", "local") for n in (6, 7))]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], list[int]]:
    """Call a function before the first commit of a job, and count the commits."""

    def between(act: Callable[[], object]) -> list[int]:
        commits: list[int] = []
        committed = job.commit_messages

        def late(*arguments: Any) -> Any:
            commits.append(len(commits))
            if len(commits) == 1:
                act()
            return committed(*arguments)

        monkeypatch.setattr(job, "commit_messages", late)
        return commits

    return between


@pytest.mark.parametrize("options", [{"bucket": 1}, KINDS["vectors"]], ids=str)
def test_a_deletion_is_of_the_rows_as_they_are_when_it_commits(
    options: dict[str, object], meanwhile: Any, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, "id BIGINT, n INT", keys=["id"], options=options)
    table.append({"id": [1, 2, 3], "n": [10, 20, 30]})
    commits = meanwhile(lambda: table.upsert({"id": [1, 2], "n": [25, 5]}))
    delete("n > 15", table.path, spark=spark, commit_user="etl", commit_identifier=1)
    assert rows(table) == [(2, 5)]
    assert len(commits) == 2
    assert delete("n > 0", table.path, spark=spark, commit_user="etl", commit_identifier=1) is None  # is committed


def test_so_is_one_by_keys_that_reads_their_rows(meanwhile: Any, spark: SparkSession, tmp_path: Path) -> None:
    """A deletion must have a newer sequence field than its row."""
    table = new_table(tmp_path, "id BIGINT, n INT", keys=["id"], options={"bucket": 1, "sequence.field": "n"})
    table.append({"id": [1, 2], "n": [10, 20]})
    meanwhile(lambda: table.upsert({"id": [1], "n": [11]}))
    delete(spark.createDataFrame([(1,)], "id BIGINT"), table.path)
    assert rows(table) == [(2, 20)]


def test_an_overwrite_replaces_what_is_there_when_it_commits(
    meanwhile: Any, spark: SparkSession, tmp_path: Path
) -> None:
    table = new_table(tmp_path, COLUMNS, keys=["id", "b"], by=["b"], options={"bucket": 1})
    table.append({"id": [1, 1], "a": ["old", "old"], "b": ["x", "y"]})
    meanwhile(lambda: table.upsert({"id": [1, 2, 1], "a": ["late"] * 3, "b": ["x", "x", "y"]}))
    write(spark.createDataFrame([(1, "new", "x")], COLUMNS), table.path, "overwrite", dynamic=True)
    assert rows(table) == [(1, "late", "y"), (1, "new", "x")]
