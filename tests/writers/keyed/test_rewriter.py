"""Sorted runs divided at the same keys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import morrow
from morrow.engine.errors import Unsupported
from morrow.engine.io.local import disable_fsync
from morrow.engine.structs import replace
from morrow.writers.buckets.routers import BucketState, restore_partitions, split
from morrow.writers.commit.table_commit import TableCommit
from morrow.writers.files import bucket_reader
from morrow.writers.files.data_files import Placement
from morrow.writers.keyed import rewriter as module
from morrow.writers.keyed.rewriter import iterate_key_ranges, merge_versions
from morrow.writers.keyed.writer import MergeTreeWriter, compact_bucket
from morrow.writers.target import WriteTarget
from tests.oracle import File, NullError, Record, RetractionError, Row, read_bucket
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.random_merging_tables import random_merging_tables
from tests.support.random_tables import RandomTable, random_tables
from tests.support.table_factory import TableFactory
from tests.writers.keyed.tables import FEWER, frame_of, keyed_table, opened, rows


def batches(keys: list[int], size: int) -> Iterator[pl.DataFrame]:
    frame = pl.DataFrame({"k": keys, "place": range(len(keys))}, schema={"k": pl.Int64, "place": pl.Int64})
    yield from (frame[start : start + size] for start in range(0, len(keys), size))


def test_a_range_ends_where_a_run_may_go_on() -> None:
    first, second = [1, 2, 3, 4, 5, 6], [2, 4, 9]
    ranges = iterate_key_ranges([batches(first, 3), batches(second, 3)], ["k"], [1, 1])
    assert [[part["k"].to_list() for part in parts] for parts in ranges] == [
        [[1, 2], [2]],  # the first run is read up to 3, which may continue
        [[3, 4, 5], [4]],
        [[6]],
        [[9]],
    ]


@given(st.lists(st.lists(st.integers(0, 9), max_size=12).map(sorted), max_size=4), st.integers(1, 5), st.integers(1, 4))
def test_ranges_have_every_row_once_and_all_of_a_key_together(runs: list[list[int]], size: int, ahead: int) -> None:
    ranges = [
        pl.concat(parts)
        for parts in iterate_key_ranges([batches(run, size) for run in runs], ["k"], [ahead] * len(runs))
    ]
    assert sorted(k for frame in ranges for k in frame["k"]) == sorted(k for run in runs for k in run)
    reached = -1
    for frame in ranges:
        assert int(frame["k"].min()) > reached  # type: ignore[arg-type]  # of a non-empty Int64 column
        reached = int(frame["k"].max())  # type: ignore[arg-type]  # the same


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=12), st.integers(1, 4))
def test_composite_keys_are_cut_in_their_order(keys: list[tuple[int, str]], size: int) -> None:
    frame = pl.DataFrame(sorted(keys), schema={"n": pl.Int64, "s": pl.String}, orient="row")
    cut = [frame[start : start + size] for start in range(0, frame.height, size)]
    ranges = [pl.concat(parts).rows() for parts in iterate_key_ranges([iter(cut), iter(cut)], ["n", "s"], [1, 1])]
    assert sorted(row for part in ranges for row in part) == sorted(keys * 2)
    for before, after in pairwise(ranges):
        assert max(before) < min(after)


# Merges of versions, by every engine, from the write buffer and from files, against the row-wise oracle.

TABLES = st.one_of(random_tables(), random_merging_tables())


def merged(target: WriteTarget, *given: tuple[str, int, str | None]) -> list[tuple[int, str | None, int]]:
    """Number the rows in their order, merge them, and list the remaining rows as ``(k, v, kind)``."""
    versions = rows(*given).with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("_SEQUENCE_NUMBER"))
    return merge_versions(target, versions).select("k", "v", "_VALUE_KIND").rows()


def test_a_single_version_stays_as_it_is(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"merge-engine": "partial-update"})
    assert merged(target, ("-D", 2, "b"), ("+U", 1, None)) == [(1, None, 2), (2, "b", 3)]


def test_versions_that_do_not_count_leave_no_row(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"ignore-delete": "true"})
    assert merged(target, ("-D", 1, "a"), ("-U", 1, "b"), ("+I", 2, "c"), ("-D", 2, "d")) == [(2, "c", 0)]


def test_first_row_takes_no_retractions_unless_told_to_ignore_them(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="retraction"):
        merged(keyed_table(tmp_path / "a", {"merge-engine": "first-row"}), ("+I", 1, "a"), ("-D", 1, "a"))
    ignoring = keyed_table(tmp_path / "b", {"merge-engine": "first-row", "ignore-delete": "true"})
    assert merged(ignoring, ("-D", 1, "x"), ("+I", 1, "a"), ("+I", 1, "b")) == [(1, "a", 0)]


def test_keys_with_one_version_and_with_several_come_out_in_order(tmp_path: Path) -> None:
    target = keyed_table(tmp_path, {"merge-engine": "partial-update"})
    given = [("+I", 3, "c"), ("+I", 1, "a"), ("+I", 2, "b"), ("+I", 1, None), ("+I", 4, "d"), ("+I", 4, "e")]
    assert merged(target, *given) == [(1, "a", 0), (2, "b", 0), (3, "c", 0), (4, "e", 0)]


# --- against the oracle ---


@contextmanager
def tiny_ranges() -> Iterator[None]:
    """Make merges proceed in key ranges of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_WHOLE_BYTES", 0)
        patch.setattr(module, "RANGE_BYTES", 1)
        patch.setattr(module, "MIN_BATCH_ROWS", 2)
        patch.setattr(bucket_reader, "is_scanned", lambda _format, _path: True)
        yield


def assert_reads(target: WriteTarget, table: RandomTable, expected: Sequence[Row]) -> None:
    actual = morrow.open(target.metadata.root).scan().to_arrow()
    wanted = table.arrow(expected)
    assert_same_rows(rows_of(actual, table.fields), rows_of(wanted, table.fields), table.fields, table.set_columns)


def created(folder: Path, table: RandomTable, **more: str) -> WriteTarget:
    """Create the random table without rows."""
    options = {**table.options, **more}
    TableFactory(folder / "t", table.fields, table.primary_keys, table.partition_keys, options)
    return opened(folder / "t")


def one_by_one(table: RandomTable) -> list[Row]:
    """Let the oracle merge all records in file order, without levels."""
    leveled = ("deletion-vectors.enabled", "changelog-producer", "force-lookup")
    visible = {k: v for k, v in table.options.items() if k not in leveled}
    names = [field.name for field in table.fields]
    found = []
    for partition in dict.fromkeys(file.partition for file in table.files):
        records = [record for file in table.files if file.partition == partition for record in file.records]
        arrived = [replace(record, sequence=number) for number, record in enumerate(given_to_writer(table, records))]
        found += read_bucket([File(5, arrived)], names, visible, table.fields, table.primary_keys)
    return found


def given_to_writer(table: RandomTable, records: Sequence[Record]) -> list[Record]:
    """List the records that a writer accepts and does not ignore."""
    drops = table.options.get("ignore-delete") == "true" or table.options.get("merge-engine") == "first-row"
    return [record for record in records if not (drops and record.retracts)]


@FEWER
@given(TABLES, st.data())
def test_what_is_written_at_once_reads_as_the_oracle_says(table: RandomTable, data: st.DataObject) -> None:
    assume(merely_merges(table) or not has_lone_retractions(table))
    try:
        expected = one_by_one(table)
    except (RetractionError, NullError):
        assume(False)
    with tempfile.TemporaryDirectory() as folder, disable_fsync():
        target = created(Path(folder), table)
        writers: dict[Placement, MergeTreeWriter] = {}
        for file in table.files:
            for place, part in split(frame_of(table, given_to_writer(table, file.records)), target.partition_fields, 0):
                bucket = writers.setdefault(place, MergeTreeWriter(target, place, BucketState()))
                bucket.write(part)
                if data.draw(st.booleans(), "spill"):
                    bucket.spill()
        TableCommit(target).commit([bucket.prepare_commit() for bucket in writers.values()])
        assert_reads(target, table, expected)


def has_lone_retractions(table: RandomTable) -> bool:
    """Return whether a key has only retractions.

    Lookups merge them to a row of nulls, as in Java. Reads drop them.
    ."""
    records = [(file.partition, record) for file in table.files for record in file.records]
    added = {(partition, record.key) for partition, record in records if not record.retracts}
    return any((partition, record.key) not in added for partition, record in records)


def merely_merges(table: RandomTable) -> bool:
    """Return whether compactions merge like reads, without lookups, which merge single versions and hide level 0."""
    looks_up = {"deletion-vectors.enabled", "changelog-producer", "force-lookup"} & table.options.keys()
    return not looks_up and table.options.get("merge-engine") != "first-row"


@pytest.mark.parametrize("ranges", [nullcontext, tiny_ranges], ids=["in one piece", "range by range"])
@FEWER
@given(TABLES.filter(merely_merges))
def test_a_full_compaction_changes_no_row(
    ranges: Callable[[], AbstractContextManager[None]], table: RandomTable
) -> None:
    with tempfile.TemporaryDirectory() as folder, ranges(), disable_fsync():
        table.write(Path(folder) / "t")
        target = opened(Path(folder) / "t")
        compacted(target, full=True)
        assert_reads(target, table, table.rows(len(table.files)))
        assert {file.level for state in states(target).values() for file in state.files} <= {target.write.max_level}


@FEWER
@given(random_tables().filter(merely_merges), st.integers(1, 4), st.booleans())
def test_no_compaction_changes_a_row_of_engines_that_choose(table: RandomTable, trigger: int, tiny: bool) -> None:
    options = {**table.options, "num-sorted-run.compaction-trigger": str(trigger), "num-levels": "6"}
    table = replace(table, options=options | ({"target-file-size": "1 b"} if tiny else {}))
    with tempfile.TemporaryDirectory() as folder, disable_fsync():
        table.write(Path(folder) / "t")
        target = opened(Path(folder) / "t")
        for _ in range(3):
            compacted(target, full=False)
            assert_reads(target, table, table.rows(len(table.files)))


def states(target: WriteTarget) -> dict[Placement, BucketState]:
    snapshot = target.metadata.latest_snapshot()
    return {} if snapshot is None else restore_partitions(target, snapshot, None)


def compacted(target: WriteTarget, *, full: bool) -> None:
    """Compact every bucket, and commit."""
    messages = [compact_bucket(target, place, state, full=full) for place, state in states(target).items()]
    TableCommit(target).commit(messages)
