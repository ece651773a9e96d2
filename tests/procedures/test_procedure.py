"""Flink's names and forms of procedures, called through `Catalog.sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.procedures.registry import ALIASES, NOT_HERE, PROCEDURES, find_procedure


@pytest.fixture
def catalog(tmp_path: Path) -> morrow.Catalog:
    """``db.t`` with snapshots 1 to 4, two in each of the partitions 0 and 1."""
    made = morrow.Catalog(tmp_path / "warehouse")
    made.sql("CREATE DATABASE db; CREATE TABLE db.t (id INT, v STRING, p INT) PARTITIONED BY (p)")
    for i in range(4):
        made.sql(f"INSERT INTO db.t VALUES ({i}, 'v', {i % 2})")
    return made


def call(catalog: morrow.Catalog, text: str) -> list[Any]:
    return catalog.sql(f"CALL {text}").fetchall()


@pytest.mark.parametrize(
    ("arguments", "compacted"),
    [
        ("`table` => 'db.t'", 2),
        ("'db.t'", 2),
        ("'db.t', 'p=0'", 1),
        ("'db.t', 'zorder', 'id,v'", 2),
        ("'db.t', 'p=0', 'zorder', 'id,v'", 1),
        ("'db.t', '', '', '', 'sink.parallelism=4'", 2),
        ("'db.t', '', '', '', '', 'p = 1'", 1),
        ("'db.t', '', '', '', '', '', '', 'full'", 2),
        ("`table` => 'db.t', `where` => 'p > 0', order_strategy => 'order', order_by => 'id', options => ''", 1),
        ("'db.t', '', 'full'", 2),  # Spark's order
        ("'db.t', 'p=0', 'full', 'zorder', 'id'", 1),
    ],
)
def test_compact(catalog: morrow.Catalog, arguments: str, compacted: int) -> None:
    assert call(catalog, f"sys.compact({arguments})") == [(True,)]
    files = catalog.sql('SELECT count(*) FROM db."t$files"').fetchall()
    assert files == [(4 - compacted,)]


@pytest.mark.parametrize(
    "text",
    [
        "sys.create_tag(`table` => 'db.t', tag => 'one', snapshot_id => cast(2 as bigint), time_retained => '1 d')",
        "sys.create_tag('db.t', 'one', 2)",
        "default_catalog.sys.create_tag('db.t', 'one', 2, '1 d')",
    ],
)
def test_tags_and_rollback(catalog: morrow.Catalog, text: str) -> None:
    call(catalog, text)
    assert catalog.table("db.t").tags.get("one").snapshot.id == 2
    call(catalog, "sys.rename_tag(`table` => 'db.t', tagName => 'one', targetTagName => 'two')")
    call(catalog, "sys.replace_tag(`table` => 'db.t', tag => 'two', snapshot_id => 3)")
    assert call(catalog, "sys.rollback_to('db.t', 'two')") == [(4, 3)]
    assert call(catalog, "sys.rollback_to(`table` => 'db.t', snapshot_id => 2)") == [(3, 2)]
    assert call(catalog, "sys.rollback_to('db.t', cast(null as string), 1)") == [(2, 1)]


def test_a_tag_of_the_first_snapshot_with_a_watermark(catalog: morrow.Catalog) -> None:
    table = catalog.table("db.t")
    for watermark in (10, 20):
        with table.writer() as writer:
            writer.write({"id": [9], "v": ["w"], "p": [0]})
            writer.commit(watermark=watermark)
    assert call(catalog, "sys.create_tag_from_watermark('db.t', 'w', 11, '1 d')")[0][:2] == ("w", 6)
    with pytest.raises(MorrowError, match="watermark of at least 21"):
        call(catalog, "sys.create_tag_from_watermark('db.t', 'x', 21)")


@pytest.mark.parametrize("arguments", ["'p=0;p=1'", "'p = 0 or p = 1'", "partitions => 'p=0;p=1'"])
def test_indexes_of_partitions(catalog: morrow.Catalog, arguments: str) -> None:
    catalog.sql("ALTER TABLE db.t SET ('file-index.bloom-filter.columns' = 'id')")
    assert call(catalog, f"sys.rewrite_file_index('db.t', {arguments})") == [(2, 4)]


@pytest.mark.parametrize(
    "text",
    [
        "sys.expire_snapshots('db.t', 2)",
        "sys.expire_snapshots(`table` => 'db.t', retain_max => 2, options => 'snapshot.expire.limit=1')",
        "sys.expire_changelogs('db.t', 4, 2, '', 1)",
        "sys.expire_partitions('db.t', '1 d', 'yyyyMMdd', 'update-time', '')",
        "sys.expire_partitions('db.t', '1 d', 'yyyyMMdd', '$p', 'values-time')",
        "sys.reset_consumer(`table` => 'db.t', consumer_id => 'c', next_snapshot_id => 4)",
        "sys.clear_consumers(`table` => 'db.t', including_consumers => 'c.*', excluding_consumers => '')",
        "sys.compact_manifest(`table` => 'db.t', 'options' => 'manifest.target-file-size=1mb')",
        "sys.compact_database('db', 'combined', '.*', '', '')",
        "sys.compact_database(including_databases => 'db', mode => 'divided', table_options => '')",
        "sys.remove_orphan_files('db.t', '', true)",
        "sys.alter_column_default_value(`table` => 'db.t', `column` => 'v', default_value => 'new')",
        "sys.rename_branch('db.t', 'b', 'c')",
        "sys.create_branch(`table` => 'db.t', branch => 'c', ignoreIfExists => 'true')",
    ],
)
def test_other_calls(catalog: morrow.Catalog, text: str) -> None:
    catalog.table("db.t").branches.create("b")
    assert call(catalog, text)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("sys.rescale(`table` => 'db.t', sink_parallelism => 3)", Unsupported, "'sink_parallelism', which Flink has"),
        ("sys.compact_database('db', '', '', '', '', '1 d')", Unsupported, "'partition_idle_time', which Flink has"),
        ("sys.expire_changelogs('db.t', true)", Unsupported, "delete_all"),
        ("sys.migrate_table(connector => 'hive', source_table => 'a.b')", Unsupported, "from 'hive'"),
        ("sys.create_tag('db.t', 'x', snapshot => 1, snapshot_id => 2)", InvalidArgument, "given twice"),
        ("sys.compact('db.t', options => 'csv.mode=failfast')", Unsupported, "csv.mode"),
        ("sys.purge_files('db.t', 1)", InvalidArgument, "too many"),
        ("sys.rollback_too('db.t', 1)", InvalidArgument, "did you mean 'rollback"),
        ("db.compact('db.t')", InvalidArgument, "they are in sys"),
    ],
)
def test_refused_calls(catalog: morrow.Catalog, text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(catalog, text)


def test_erase(catalog: morrow.Catalog) -> None:
    found = call(catalog, "sys.erase(`table` => 'db.t', `where` => 'id = 1', dry_run => true)")
    assert [row[:4] for row in found][-1] == ("found", "newest snapshot", "main", "4")
    assert call(catalog, "sys.erase('db.t', 'id = 1', true)")
    assert catalog.sql("SELECT id FROM db.t ORDER BY id").fetchall() == [(0,), (2,), (3,)]
    assert call(catalog, "sys.erase('db.t', 'id = 1', true)") == []


OF_FLINK = """
    alter_column_default_value alter_function alter_view_dialect clear_consumers clone compact
    compact_chain_table compact_database compact_manifest copy_files create_branch create_function
    create_global_index create_tag create_tag_from_timestamp create_tag_from_watermark
    data_evolution_merge_into delete_branch delete_tag drop_function drop_global_index drop_partition
    expire_changelogs expire_partitions expire_snapshots expire_tags fast_forward full_text_search
    mark_partition_done materialize_deletion_vectors merge_branch merge_into migrate_database migrate_file migrate_table
    purge_files query_service reassign_row_id remove_orphan_files remove_unexisting_files
    remove_unexisting_manifests rename_branch rename_tag repair repair_earliest_snapshot replace_tag rescale
    reset_consumer rewrite_file_index rollback_to rollback_to_as_latest rollback_to_timestamp
    rollback_to_watermark trigger_tag_automatic_creation vector_search
"""


def test_each_procedure_of_flink_is_known() -> None:
    for name in OF_FLINK.split():
        if name not in NOT_HERE:
            assert ALIASES.get(name, name) in PROCEDURES
            continue
        with pytest.raises(Unsupported, match=f"the procedure {name} is not supported; "):
            find_procedure(name)
