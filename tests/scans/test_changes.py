"""Changes: ``Table.changes`` between snapshots, and ``Table.stream`` as they are committed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import morrow
from morrow.engine.errors import (
    ColumnNotFound,
    InvalidArgument,
    SnapshotExpired,
    SnapshotNotFound,
    TagNotFound,
    Unsupported,
)
from morrow.engine.plan.changelogs import find_snapshot_or_changelog
from morrow.engine.plan.incremental import ROWKIND_FIELD
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.golden import jsonl
from tests.support.written import new_table


def keyed(folder: Path, **options: str) -> morrow.Table:
    """Make a table with one bucket; ``_`` in an option's name stands for a dash."""
    named = {name.replace("_", "-"): value for name, value in options.items()}
    catalog = morrow.Catalog(folder)
    return catalog.create_table(
        "db.t", schema="k INT NOT NULL, v STRING", primary_keys=["k"], options={"bucket": "1", **named}
    )


def write(table: morrow.Table, *rows: tuple[str, int, str | None]) -> None:
    """Make one commit of rows that begin with their kind."""
    frame = pl.DataFrame([row[1:] for row in rows], schema={"k": pl.Int32, "v": pl.String}, orient="row")
    table.append(frame, kinds=[row[0] for row in rows] if table.primary_keys else None)


def told(changes: morrow.scans.changes.Changes) -> list[tuple[Any, ...]]:
    return changes.to_polars().rows()


# --- changes ---


def test_without_a_producer_changes_are_what_was_written(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"), ("+I", 2, "b"))
    write(t, ("+U", 1, "A"), ("-D", 2, "b"))
    t.compact(full=True)
    write(t, ("+I", 3, "c"))

    assert told(t.changes(0, 1)) == [("+I", 1, "a"), ("+I", 2, "b")]
    assert told(t.changes(1)) == [("+U", 1, "A"), ("-D", 2, "b"), ("+I", 3, "c")]
    assert told(t.changes(2, 2)) == []
    assert t.changes().count() == 5


def test_a_producer_tells_what_became_of_keys(tmp_path: Path) -> None:
    t = keyed(tmp_path, changelog_producer="lookup")
    write(t, ("+I", 1, "a"), ("+I", 2, "b"))
    write(t, ("+I", 1, "A"), ("-D", 2, None))

    assert told(t.changes(2)) == [("-U", 1, "a"), ("+U", 1, "A"), ("-D", 2, "b")]
    assert told(t.changes(2, mode="delta")) == [("+I", 1, "A"), ("-D", 2, None)]


def test_a_difference_holds_two_snapshots_against_each_other(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"), ("+I", 2, "b"), ("+I", 4, "d"))
    write(t, ("+I", 1, "A"), ("-D", 2, "b"), ("+I", 3, "c"), ("+I", 4, "other"))
    write(t, ("+I", 4, "d"))

    assert told(t.changes(1, 3, mode="diff")) == [("-U", 1, "a"), ("+U", 1, "A"), ("-D", 2, "b"), ("+I", 3, "c")]
    assert told(t.changes(2, 3, mode="diff", filter="v = 'd'")) == [("+U", 4, "d")]
    assert told(t.changes(0, 1, mode="diff", filter="v > 'a'")) == [("+I", 2, "b"), ("+I", 4, "d")]


def test_a_difference_knows_rows_of_one_key_by_their_partition(tmp_path: Path) -> None:
    t = new_table(tmp_path, "k INT, p STRING, v INT", keys=["k"], by=["p"], options={"bucket": 1})
    t.append({"k": [1, 1], "p": ["a", None], "v": [1, 2]})
    t.append({"k": [1, 1], "p": ["b", None], "v": [3, 4]})
    rows = [("-U", 1, None, 2), ("+U", 1, None, 4), ("+I", 1, "b", 3)]
    assert sorted(told(t.changes(1, 2, mode="diff")), key=str) == sorted(rows, key=str)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_a_difference_compares_reals_by_their_bits(tmp_path: Path, kind: str) -> None:
    """Changelogs made by compaction compare reals by value, as in Java."""
    t = new_table(tmp_path, f"k INT, v {kind}", keys=["k"], options={"bucket": 1})
    nan = float("nan")
    t.append({"k": [1, 2, 3, 4, 5], "v": [nan, 0.0, 0.0, nan, None]})
    t.append({"k": [1, 2, 3, 4, 5], "v": [nan, 0.0, -0.0, 1.0, None]})
    assert str(told(t.changes(1, 2, mode="diff"))) == (
        "[('-U', 3, 0.0), ('+U', 3, -0.0), ('-U', 4, nan), ('+U', 4, 1.0)]"
    )


def test_a_difference_of_rows_without_a_key_counts_them(tmp_path: Path) -> None:
    catalog = morrow.Catalog(tmp_path)
    t = catalog.create_table("db.t", schema="k INT, v STRING")
    write(t, ("+I", 1, "a"), ("+I", 1, "a"), ("+I", 2, None))
    t.overwrite(pl.DataFrame({"k": [1, 2, 2], "v": ["a", None, None]}, schema={"k": pl.Int32, "v": pl.String}))

    assert sorted(told(t.changes(1, 2, mode="diff"))) == [("+I", 2, None), ("-D", 1, "a")]
    assert told(t.changes(1, 2)) == []  # as in Paimon, delta omits overwrites


def test_columns_and_filters(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"), ("+I", 2, "b"))
    assert told(t.changes(columns=["v"], filter="k > 1")) == [("+I", "b")]
    with pytest.raises(ColumnNotFound):
        t.changes(columns=["x"])


def test_every_form_of_the_rows(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    changes = t.changes()
    table = changes.to_arrow()
    assert table.schema == changes.schema
    assert table.to_pylist() == [{"rowkind": "+I", "k": 1, "v": "a"}]
    assert changes.to_reader().read_all() == table
    assert changes.to_pandas()["rowkind"].to_list() == ["+I"]
    assert pl.DataFrame(changes).rows() == [("+I", 1, "a")]
    with duckdb.connect() as connection:
        assert changes.to_duckdb(connection).fetchall() == [("+I", 1, "a")]


def test_times_are_those_of_commits(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    write(t, ("+I", 2, "b"))
    first, second = (snapshot.time_millis for snapshot in t.snapshots())
    assert told(t.changes(from_timestamp=first - 1, to_timestamp=first)) == [("+I", 1, "a")]
    assert told(t.changes(from_timestamp=first)) == [("+I", 2, "b")]
    assert told(t.changes(from_timestamp=second + 1_000)) == []
    assert told(t.changes(to_timestamp=first - 1)) == []


def outlived(folder: Path, **options: str) -> morrow.Table:
    """Make five snapshots, of which only the last remains, and changelogs from the third on."""
    one = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "1"}
    three = {"changelog.num-retained.min": "3", "changelog.num-retained.max": "3"}
    table = keyed(folder, **one, **three, **{"num-sorted-run.compaction-trigger": "9"}, **options)
    for number in range(1, 6):
        write(table, ("+I", number, None))
        time.sleep(0.002)  # so that the commits have different times
    return table


@pytest.mark.parametrize("producer", ["input", "none"])
def test_changes_outlive_their_snapshots_in_changelogs(tmp_path: Path, producer: str) -> None:
    table = outlived(tmp_path, **{"changelog-producer": producer})
    third, fourth = (find_snapshot_or_changelog(table._metadata, i).time_millis for i in (3, 4))

    def keys(**asked: Any) -> list[int]:
        return [key for _, key, _ in told(table.changes(**asked))]

    assert [snapshot.id for snapshot in table.snapshots()] == [5]
    assert keys() == [3, 4, 5]
    assert keys(from_snapshot=3) == [4, 5]
    assert keys(from_snapshot=2, to_snapshot=4) == [3, 4]
    assert keys(from_timestamp=third) == [4, 5]
    assert keys(from_timestamp=third - 1) == [3, 4, 5]
    assert keys(from_timestamp=third, to_timestamp=fourth) == [4]
    assert [c.snapshot_id for c in table.stream(from_timestamp=third, wait=0)] == [4, 5]
    with pytest.raises(SnapshotExpired):
        table.changes(from_snapshot=1)


def test_changelogs_of_a_producer_do_not_keep_what_was_written(tmp_path: Path) -> None:
    table = outlived(tmp_path, **{"changelog-producer": "input"})
    assert told(table.changes(mode="delta")) == [("+I", 5, None)]
    with pytest.raises(SnapshotExpired, match="snapshot 4 has expired"):
        table.changes(from_snapshot=3, mode="delta")


def test_a_stream_from_before_the_first_snapshot_begins_with_it(tmp_path: Path) -> None:
    table = keyed(tmp_path)
    write(table, ("+I", 1, None))
    assert [c.snapshot_id for c in table.stream(0, wait=0)] == [1]


@pytest.mark.golden
def test_tags_are_held_against_each_other(golden_root: Path) -> None:
    t = morrow.open(golden_root / "public/tags_basic/warehouse/db.db/t")
    tags = t.tags.list()
    old, new = tags[0], tags[-1]
    changes = t.changes(old.name, new.name)

    state = {tuple(row) for row in t.scan(tag=old.name).to_polars().rows()}
    for kind, *row in told(changes):
        state.symmetric_difference_update({tuple(row)})
        assert (tuple(row) in state) == (kind in ("+I", "+U"))
    assert state == {tuple(row) for row in t.scan(tag=new.name).to_polars().rows()}


def test_wrong_calls_say_what_is_wrong(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    assert told(t.changes()) == []  # before the first snapshot
    write(t, ("+I", 1, "a"))
    with pytest.raises(InvalidArgument, match="mode must be one of auto, raw, delta, changelog, diff"):
        t.changes(mode="both")  # type: ignore[arg-type]  # the wrong call is tested
    with pytest.raises(InvalidArgument, match="only one of from_snapshot and from_timestamp"):
        t.changes(1, from_timestamp=0)
    with pytest.raises(InvalidArgument, match="from an older snapshot to a newer one"):
        t.changes(2, 1)
    with pytest.raises(SnapshotNotFound):
        t.changes(0, 9)
    with pytest.raises(TagNotFound):
        t.changes("none", 1)


# --- streams ---


def test_a_stream_begins_with_all_rows_and_goes_on_with_changes(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    write(t, ("+I", 1, "A"))
    stream = t.stream(wait=0)

    first = next(stream)
    assert (first.is_full, first.snapshot_id, told(first)) == (True, 2, [("+I", 1, "A")])
    write(t, ("-D", 1, "A"))
    t.compact(full=True)
    write(t, ("+I", 2, "b"))
    assert [(c.snapshot_id, told(c)) for c in stream] == [(3, [("-D", 1, "A")]), (5, [("+I", 2, "b")])]
    assert stream.next_snapshot == 6


def test_a_stream_may_leave_out_what_is_there(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    stream = t.stream(start="latest", wait=0)
    assert list(stream) == []
    write(t, ("+I", 2, "b"))
    assert [told(c) for c in stream] == [[("+I", 2, "b")]]


def test_the_first_rows_are_those_that_the_changelog_has_told_of(tmp_path: Path) -> None:
    """Rows that wait in level 0 for a compaction come with its changes."""
    t = keyed(tmp_path, changelog_producer="full-compaction")
    write(t, ("+I", 1, "a"))
    t.compact(full=True)
    write(t, ("+I", 1, "A"))
    stream = t.stream(wait=0)
    assert told(next(stream)) == [("+I", 1, "a")]
    t.compact(full=True)
    assert [told(c) for c in stream] == [[("-U", 1, "a"), ("+U", 1, "A")]]


def test_overwrites_are_followed_where_the_table_says_so(tmp_path: Path) -> None:
    t = keyed(tmp_path, streaming_read_overwrite="true")
    write(t, ("+I", 1, "a"), ("+I", 2, "b"))
    t.overwrite(pl.DataFrame({"k": [1], "v": ["A"]}, schema={"k": pl.Int32, "v": pl.String}))
    assert [told(c) for c in t.stream(2, wait=0)] == [[("-U", 1, "a"), ("+U", 1, "A"), ("-D", 2, "b")]]


def test_a_consumer_goes_on_where_it_was(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    with t.stream(consumer_id="c", wait=0) as stream:
        assert [told(c) for c in stream] == [[("+I", 1, "a")]]
    file = Path(t.path) / "consumer" / "consumer-c"
    assert json.loads(file.read_text())["nextSnapshot"] == 2
    write(t, ("+I", 2, "b"))

    with pytest.raises(RuntimeError), t.stream(consumer_id="c", wait=0) as stream:
        assert told(next(stream)) == [("+I", 2, "b")]
        raise RuntimeError("not processed")
    assert t.consumers.all() == {"c": 2}

    stream = t.stream(consumer_id="c", wait=0)
    assert [told(c) for c in stream] == [[("+I", 2, "b")]]
    stream.commit()
    assert (t.consumers.next_snapshot("c"), t.consumers.slowest()) == (3, ("c", 2))
    assert t.consumers.delete("c")


@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_a_stream_whose_snapshots_were_rolled_back_says_so(tmp_path: Path, later: int) -> None:
    """A stream raises an error however many commits have reused the ids, since it would miss their rows."""
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    stream = t.stream(start="latest", wait=0)
    write(t, ("+I", 2, "b"))
    write(t, ("+I", 3, "c"))
    assert len(list(stream)) == 2
    t.rollback(1)
    for k in range(later):
        write(t, ("+I", 4 + k, "d"))
    with pytest.raises(SnapshotExpired, match=r"snapshot 3 .* not there any more, .* was rolled back"):
        list(stream)


@pytest.mark.parametrize("later", [0, 1, 2, 3])
def test_a_consumer_whose_snapshots_were_rolled_back_says_so(tmp_path: Path, later: int) -> None:
    t = keyed(tmp_path)
    for k in range(4):
        write(t, ("+I", k, "a"))
    with t.stream(consumer_id="c", wait=0) as stream:
        list(stream)
    t.rollback(2)
    for k in range(later):
        write(t, ("+I", 10 + k, "b"))
    with pytest.raises(SnapshotExpired, match=r"snapshot 4 .* was rolled back.* after `table.consumers.delete\('c'\)`"):
        list(t.stream(consumer_id="c", wait=0))
    t.consumers.delete("c")
    assert told(next(t.stream(consumer_id="c", wait=0)))


def test_a_consumer_does_not_go_on_along_another_branch(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    for k in range(3):
        write(t, ("+I", k, "a"))
    with t.stream(consumer_id="c", wait=0) as stream:
        list(stream)
    t.branches.create("b", snapshot=2)
    for k in (10, 11):
        write(t.on_branch("b"), ("+I", k, "b"))
    t.branches.fast_forward("b")
    with pytest.raises(SnapshotExpired, match=r"snapshot 3 .* was rolled back"):
        list(morrow.open(t.path).stream(consumer_id="c", wait=0))


def test_a_consumer_goes_on_if_a_rollback_spared_what_it_has_read(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    with t.stream(consumer_id="c", wait=0) as stream:
        list(stream)
    write(t, ("+I", 2, "b"))
    t.rollback(1)
    write(t, ("+I", 3, "c"))
    assert [told(c) for c in t.stream(consumer_id="c", wait=0)] == [[("+I", 3, "c")]]


def test_a_consumer_that_java_recorded_goes_on_by_its_id(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    write(t, ("+I", 2, "b"))
    t.consumers.record("c", 2)
    assert (Path(t.path) / "consumer" / "consumer-c").read_text() == '{\n  "nextSnapshot" : 2\n}'
    assert [told(c) for c in t.stream(consumer_id="c", wait=0)] == [[("+I", 2, "b")]]


def test_an_overwrite_that_is_the_first_snapshot_is_followed(tmp_path: Path) -> None:
    t = keyed(tmp_path, streaming_read_overwrite="true")
    stream = t.stream(wait=0)
    assert list(stream) == []
    t.overwrite(pl.DataFrame({"k": [1], "v": ["A"]}, schema={"k": pl.Int32, "v": pl.String}))
    assert [told(c) for c in stream] == [[("+I", 1, "A")]]


def test_a_consumer_keeps_the_snapshot_before_an_overwrite(tmp_path: Path) -> None:
    t = keyed(tmp_path, streaming_read_overwrite="true")
    write(t, ("+I", 1, "a"))
    with t.stream(consumer_id="c", wait=0) as stream:
        list(stream)
    t.overwrite(pl.DataFrame({"k": [2], "v": ["b"]}, schema={"k": pl.Int32, "v": pl.String}))
    write(t, ("+I", 3, "c"))
    t.expire_snapshots(retain_max=1, retain_min=1)
    changes = [told(c) for c in t.stream(consumer_id="c", wait=0)]
    assert changes == [[("-D", 1, "a"), ("+I", 2, "b")], [("+I", 3, "c")]]

    t.consumers.delete("c")
    t.expire_snapshots(retain_max=2, retain_min=1)
    with pytest.raises(
        SnapshotExpired, match=r"snapshot 1 has expired; .*with 'streaming-read-overwrite', .* snapshot 2"
    ):
        list(t.stream(2, wait=0))


def test_a_stream_goes_on_where_the_table_was_rolled_back_to(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    stream = t.stream(start="latest", wait=0)
    write(t, ("+I", 2, "b"))
    t.rollback(1)
    write(t, ("+I", 3, "c"))
    assert [told(c) for c in stream] == [[("+I", 3, "c")]]


@pytest.mark.parametrize("begin", [{"from_snapshot": 3}, {"consumer_id": "c"}])
def test_a_stream_from_after_the_newest_snapshot_says_so(tmp_path: Path, begin: dict[str, Any]) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    with t.stream(consumer_id="c", wait=0) as stream:
        list(stream)
    assert list(t.stream(2, wait=0)) == []
    write(t, ("+I", 2, "b"))
    with t.stream(consumer_id="c", wait=0) as stream:
        list(stream)
    t.rollback(1)
    with pytest.raises(SnapshotExpired, match=r"snapshot 2 .* not there any more, and its newest snapshot is 1"):
        list(t.stream(wait=0, **begin))


def test_a_stream_of_a_table_that_was_dropped_says_so(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    assert list(t.stream(wait=0)) == []
    write(t, ("+I", 1, "a"))
    stream = t.stream(start="latest", wait=0)
    shutil.rmtree(t.path)
    with pytest.raises(SnapshotExpired, match="it has no snapshots: the table was rolled back, or created again"):
        list(stream)


def test_a_stream_goes_on_although_what_it_has_read_expires(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"))
    stream = t.stream(start="latest", wait=0)
    write(t, ("+I", 2, "b"))
    t.expire_snapshots(retain_max=1, retain_min=1)
    assert [told(c) for c in stream] == [[("+I", 2, "b")]]


@pytest.mark.parametrize("asked", [{}, {"columns": ["k"], "filter": "v > 3"}])
def test_a_type_that_changes_ends_a_stream_and_not_the_next_one(tmp_path: Path, asked: dict[str, Any]) -> None:
    log = morrow.Catalog(tmp_path).create_table("db.log", schema="k INT, v INT")
    log.append({"k": [1], "v": [5]})
    stream = log.stream(start="latest", wait=0, **asked)
    log.alter.add_column("w", "INT").set_type("v", "BIGINT")
    morrow.open(log.path).append({"k": [2], "v": [1 << 40], "w": [6]})
    with pytest.raises(Unsupported, match="'v', which was INT when the stream began, as BIGINT"):
        list(stream)
    assert [c.count() for c in log.stream(2, wait=0, **asked)] == [1]


def test_a_stream_keeps_its_columns(tmp_path: Path) -> None:
    log = morrow.Catalog(tmp_path).create_table("db.log", schema="k INT, v INT")
    log.append({"k": [1], "v": [5]})
    stream = log.stream(start="latest", wait=0)
    log.alter.add_column("w", "INT").rename_column("v", "n")
    morrow.open(log.path).append({"k": [2], "n": [7], "w": [6]})
    assert [c.to_polars().rows() for c in stream] == [[("+I", 2, 7)]]


def test_wrong_streams_say_what_is_wrong(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    with pytest.raises(InvalidArgument, match="give a consumer_id"):
        t.stream().commit()
    with pytest.raises(InvalidArgument, match="start must be one of full, latest"):
        t.stream(start="earliest")  # type: ignore[arg-type]  # the wrong call is tested
    with pytest.raises(InvalidArgument, match="not a consumer name"):
        t.stream(consumer_id="../c")


@pytest.mark.golden
def test_a_stream_that_comes_too_late_says_so(golden_root: Path) -> None:
    t = morrow.open(golden_root / "public/snapshots_expired/warehouse/db.db/t")
    with pytest.raises(SnapshotExpired, match="read the whole table again"):
        next(t.stream(1, wait=0))


GOLDEN_STREAMS = (
    *("append_stream", "no_changelog_stream", "system_tables_pk", "fmt_suffix_compression"),
    *("changelog_input", "changelog_decoupled_expire", "first_row_ignore_delete_changelog", "dv_pk_changelog_lookup"),
    *("changelog_lookup", "changelog_lookup_partial_update", "changelog_lookup_row_deduplicate"),
    *("changelog_full_compaction", "changelog_full_compaction_aggregation"),
    "changelog_full_compaction_row_deduplicate",
)


@pytest.mark.golden
@pytest.mark.parametrize("name", GOLDEN_STREAMS)
def test_streams_are_those_of_java(name: str, golden_root: Path) -> None:
    folder = golden_root / "public" / name
    steps: Sequence[dict[str, Any]] = json.loads((folder / "case.json").read_text())["stream"]
    t = morrow.open(folder / "warehouse/db.db/t")
    fields = (ROWKIND_FIELD, *t.schemas()[-1].fields)

    found = {c.snapshot_id: rows_of(c.to_arrow(), fields) for c in t.stream(1, wait=0)}

    assert list(found) == [step["snapshot"] for step in steps]
    for step in steps:
        assert_same_rows(found[step["snapshot"]], normal_rows(jsonl(folder / step["file"]), fields), fields)


# --- partial rows ---


@pytest.mark.parametrize("engine", ["partial-update", "aggregation", "first-row"])
def test_what_was_written_is_no_whole_row_and_is_asked_for_by_name(tmp_path: Path, engine: str) -> None:
    t = keyed(tmp_path, merge_engine=engine)
    write(t, ("+I", 1, "a"))
    write(t, ("+I", 1, None))
    for read in (t.changes, t.stream, lambda: t.system("audit_log", from_snapshot=0, to_snapshot=2).to_arrow()):
        with pytest.raises(Unsupported, match=f"the merge engine {engine} and without a changelog producer"):
            read()
    written = [("+I", 1, "a"), ("+I", 1, None)]
    assert told(t.changes(mode="raw")) == told(t.changes(mode="delta")) == written
    assert [row for c in t.stream(1, wait=0, mode="raw") for row in told(c)] == written
    last = t.snapshots()[-1].id
    assert t.system("audit_log", from_snapshot=0, to_snapshot=last, mode="raw").to_polars().rows() == written
    with pytest.raises(InvalidArgument, match="mode must be one of auto, raw"):
        t.stream(mode="delta")  # type: ignore[arg-type]  # wrong on purpose


def test_rows_of_a_producer_are_whole(tmp_path: Path) -> None:
    t = keyed(tmp_path, merge_engine="partial-update", changelog_producer="lookup")
    write(t, ("+I", 1, "a"))
    assert [told(c) for c in t.stream(wait=0)] == [[("+I", 1, "a")]]


def test_an_audit_log_between_tags_has_one_row_of_a_key(tmp_path: Path) -> None:
    t = keyed(tmp_path)
    write(t, ("+I", 1, "a"), ("+I", 2, "b"))
    t.tags.create("mon")
    write(t, ("-D", 1, "a"), ("+I", 2, "B"), ("+I", 3, "c"))
    t.tags.create("tue")
    rows = t.system("audit_log", from_snapshot="mon", to_snapshot="tue").to_polars().rows()
    assert sorted(rows) == [("+I", 3, "c"), ("+U", 2, "B"), ("-D", 1, "a")]
    assert ("-U", 2, "b") in told(t.changes("mon", "tue"))


@pytest.mark.golden
@pytest.mark.parametrize("case", ["data_evolution", "blob"])
def test_files_of_one_row_are_put_together_and_columns_of_older_rows_are_refused(golden_root: Path, case: str) -> None:
    t = morrow.open(golden_root / f"public/{case}/warehouse/db.db/t")
    ends, whole = [0, *(s.next_row_id or 0 for s in t._metadata.snapshots())], 0
    for snapshot in t._metadata.snapshots():
        try:
            changes = t.changes(snapshot.id - 1, snapshot.id)
        except Unsupported as error:
            assert "columns of rows that were there before" in str(error)
            continue
        if snapshot.commit_kind == "APPEND":
            whole += 1
            assert changes.count() == ends[snapshot.id] - ends[snapshot.id - 1]
    assert whole
