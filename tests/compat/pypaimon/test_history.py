"""Time travel, tags, branches, streams and system tables through the interface of pypaimon."""

from __future__ import annotations

import pytest
from morrow.compat.pypaimon.catalog.catalog_exception import TableNotExistException

import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import SchemaChange
from morrow.engine.errors import Unsupported
from tests.compat.pypaimon.tables import DATA, make, read, write


def test_time_travel(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    table.create_tag("v1")
    write(table, DATA)
    time = table.snapshot_manager().get_snapshot_by_id(1).time_millis
    for option in ({"scan.snapshot-id": "1"}, {"scan.tag-name": "v1"}, {"scan.timestamp-millis": str(time)}):
        assert len(read(table.copy(option))) == 3
        assert len(read(table.copy(option).copy({next(iter(option)): None}))) == 6
    assert len(read(table.copy({"read.parallelism": "4"}))) == 6
    between = {"incremental-between": "1,2"}
    assert len(read(table.copy({**between, "scan.mode": "incremental"}))) == 3
    assert len(read(table.copy(between), lambda b: b.with_limit(2).with_projection(["id"]))) == 2
    with pytest.raises(ValueError, match="rescale"):
        table.copy({"bucket": "7"})


def test_tags(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    write(table, DATA)
    table.create_tag("a", 1, time_retained="1 d")
    catalog.create_tag("db.t", "b")
    with pytest.raises(pypaimon.TagAlreadyExistException) as raised:
        catalog.create_tag("db.t", "b")
    assert raised.value.tag == "b"  # type: ignore[attr-defined]
    table.rename_tag("b", "c")
    assert catalog.list_tags_paged("db.t", tag_name_prefix="c").elements == ["c"]
    page = catalog.list_tags_paged("db.t", max_results=1)
    assert (page.elements, page.next_page_token) == (["a"], "a")
    assert catalog.list_tags_paged("db.t", 1, page.next_page_token) == pypaimon.catalogs.PagedList(["c"])
    assert table.tag_manager().get_or_throw("a").trim_to_snapshot().id == table.tag_manager().get("a").id == 1
    assert catalog.get_tag("db.t", "a").tag_time_retained == "PT24H"
    table.rollback_to("a")
    assert table.snapshot_manager().get_latest_snapshot().id == 1
    with pytest.raises(ValueError, match="none"):
        table.rollback_to("none")
    assert (table.delete_tag("a"), table.delete_tag("a"), table.tag_manager().get("a")) == (True, False, None)


def test_branches(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    table.create_tag("v1")
    catalog.create_branch("db.t", "dev", "v1")
    dev = catalog.get_table("db.t$branch_dev")
    write(dev, DATA)
    assert (len(read(table)), len(read(dev)), len(read(table.copy({"branch": "dev"})))) == (3, 6, 6)
    assert (dev.current_branch(), table.branch_manager().branches()) == ("dev", ["dev"])
    catalog.fast_forward("db.t", "dev")
    assert len(read(table)) == 6
    catalog.drop_branch("db.t", "dev")
    with pytest.raises(pypaimon.BranchNotExistException):
        catalog.get_table("db.t$branch_dev")


def test_snapshots_and_schemas(catalog: pypaimon.Catalog) -> None:
    table = make(catalog)
    write(table, DATA)
    snapshots = table.snapshot_manager()
    assert [each.id for each in snapshots.list_snapshots()] == [1, 2]
    assert (snapshots.try_get_earliest_snapshot().id, snapshots.get_snapshot_by_id(9)) == (1, None)
    assert snapshots.earlier_or_equal_time_mills(0) is None
    assert table.schema_manager.commit_changes([SchemaChange.drop_column("at")]).id == 1
    assert [len(each.fields) for each in table.schema_manager.list_all()] == [4, 3]
    assert table.options.bucket() == -1
    assert pypaimon.CoreOptions.SCAN_TAG_NAME.key() == "scan.tag-name"
    with pytest.raises(AttributeError):
        _ = pypaimon.CoreOptions.NONE


def test_system_tables(catalog: pypaimon.Catalog) -> None:
    make(catalog, partition_keys=["dt"])
    snapshots = catalog.get_table("db.t$snapshots")
    assert read(snapshots, lambda b: b.with_projection(["snapshot_id"])) == [{"snapshot_id": 1}]
    assert [each.spec for each in catalog.list_partitions_paged("db.t").elements] == [{"dt": "a"}, {"dt": "b"}]
    assert [e.record_count for e in catalog.list_partitions_paged("db.t", partition_name_pattern="dt=a*").elements] == [
        2
    ]
    with pytest.raises(TableNotExistException):
        catalog.get_table("db.t$none")
    with pytest.raises(Unsupported):
        snapshots.new_batch_write_builder()


def test_streams(catalog: pypaimon.Catalog) -> None:
    table = make(catalog, primary_keys=["id"], options={"changelog-producer": "input"})
    builder = table.new_stream_read_builder().with_include_row_kind().with_projection(["id"]).with_consumer_id("me")
    plans, reader = builder.new_streaming_scan().stream_sync(), builder.new_read()
    assert reader.to_arrow(next(plans).splits()).to_pylist() == [{"_row_kind": "+I", "id": n} for n in (1, 2, 3)]
    write(table, DATA.slice(0, 1))
    assert reader.to_arrow(next(plans).splits()).to_pylist() == [{"_row_kind": "+I", "id": 1}]
    assert table.consumer_manager().consumer("me").next_snapshot == 2
    plans.close()
    table.consumer_manager().reset_consumer("me", pypaimon.Consumer(1))
    assert table.consumer_manager().consumers() == {"me": 1}
