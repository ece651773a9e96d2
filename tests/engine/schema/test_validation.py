"""Paimon 1.4.2's rules for a schema with its options: each rule is broken alone, and a similar schema follows it."""

from __future__ import annotations

from typing import Any

import pytest

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.schema.creation import build_first_schema

COLUMNS = "id INT, dt STRING, a INT, b BIGINT, l ARRAY<INT>, s TIMESTAMP(3)"
KEYED: dict[str, Any] = {"primary_keys": ["id"]}
APPEND: dict[str, Any] = {}
PARTITIONED: dict[str, Any] = {"primary_keys": ["id", "dt"], "partition_keys": ["dt"]}
MOVING: dict[str, Any] = {"primary_keys": ["id"], "partition_keys": ["dt"]}


def check(table: dict[str, Any], options: str, columns: str = COLUMNS) -> None:
    """Check a schema whose options are written as ``key=value key=value``."""
    pairs = dict(pair.split("=", 1) for pair in options.split())
    build_first_schema(columns, options=pairs, where="/t", **table)


@pytest.mark.parametrize(
    ("table", "options"),
    [
        (APPEND, ""),
        (APPEND, "bucket=4 bucket-key=a,b"),
        (APPEND, "bucket=4 bucket-key=id bucket-function.type=mod"),
        (APPEND, "deletion-vectors.enabled=true"),
        (APPEND, "sequence.field=s"),
        (KEYED, "bucket=-2"),
        (KEYED, "bucket=1 changelog-producer=lookup deletion-vectors.enabled=true"),
        (KEYED, "merge-engine=FIRST-ROW changelog-producer=lookup"),
        (
            KEYED,
            "merge-engine=aggregation fields.a.aggregate-function=sum fields.default-aggregate-function=last_value",
        ),
        (KEYED, "merge-engine=partial-update fields.s.sequence-group=a,b sequence.field=s"),
        (KEYED, "rowkind.field=dt"),
        (KEYED, "rowkind.field=a"),
        (KEYED, "file-index.bloom-filter.columns=a file-index.bloom-filter.a.items=200"),
        (KEYED, "table-read.sequence-number.enabled=true streaming-read-overwrite=true"),
        (PARTITIONED, "bucket=2 bucket-key=id partition.expiration-time=7d sequence.field=s"),
        (MOVING, "merge-engine=deduplicate"),
        (APPEND, "scan.mode=from-snapshot scan.snapshot-id=3"),
        (APPEND, "scan.tag-name=t"),
        (KEYED, "bucket=4 bucket-function.type=mod bucket-key="),
        (APPEND, "snapshot.num-retained.min=3 snapshot.num-retained.max=3"),
        (KEYED, "file.format=orc file.format.per.level=0:avro"),
    ],
)
def test_what_keeps_the_rules(table: dict[str, Any], options: str) -> None:
    check(table, options)


@pytest.mark.parametrize(
    ("table", "options", "problem"),
    [
        # Keys
        ({"primary_keys": ["l"]}, "", r"the primary key 'l' has the type ARRAY<INT>"),
        ({"partition_keys": ["l"]}, "", r"the partition key 'l' has the type ARRAY<INT>"),
        ({"primary_keys": ["dt"], "partition_keys": ["dt"]}, "", "is made of partition keys only"),
        # Buckets
        (APPEND, "bucket=0", "the number of buckets is 1 or more, or -1"),
        (APPEND, "bucket=-2", "the number of buckets is 1 or more, or -1"),
        (APPEND, "bucket=4", "needs the option 'bucket-key'"),
        (APPEND, "bucket-key=a", "'bucket-key' does not go with 'bucket' = -1"),
        (APPEND, "bucket=4 bucket-key=nope", "the bucket key 'nope' is not a column"),
        (APPEND, "bucket=4 bucket-key=l", "the bucket key 'l' has the nested type"),
        (APPEND, "full-compaction.delta-commits=3", "does not go with 'bucket' = -1"),
        (KEYED, "bucket=4 bucket-key=a", "the bucket key a is not in the primary key"),
        (PARTITIONED, "bucket=4 bucket-key=dt", "the bucket key dt is a partition key"),
        (PARTITIONED | {"primary_keys": ["id", "b", "dt"]}, "bucket=4 bucket-function.type=mod", "one INT or BIGINT"),
        # Versions ordered by snapshot
        (APPEND, "sequence.snapshot-ordering=true write-only=true", "needs a table with a primary key"),
        (KEYED, "sequence.snapshot-ordering=true", "needs 'write-only' = true"),
        (
            KEYED,
            "sequence.snapshot-ordering=true write-only=true sequence.field=a",
            "does not go with 'sequence.field'",
        ),
        (APPEND, "clustering.columns=a,nope", "the clustering column 'nope' is not a column"),
        # Where reads start
        (
            APPEND,
            "scan.mode=from-timestamp",
            "goes with exactly one of scan.timestamp-millis, scan.timestamp; set are none",
        ),
        (APPEND, "scan.mode=latest scan.snapshot-id=3", "'scan.mode' latest does not go with scan.snapshot-id"),
        (APPEND, "scan.snapshot-id=3 scan.tag-name=t", "set are scan.snapshot-id, scan.tag-name"),
        (APPEND, "scan.timestamp-millis=5 scan.snapshot-id=3", "from-timestamp does not go with scan.snapshot-id"),
        (APPEND, "scan.version=3", "'scan.version' is for one read"),
        # Retention and streams
        (APPEND, "snapshot.num-retained.min=0", "must be 1 or more"),
        (APPEND, "snapshot.num-retained.max=9", "'snapshot.num-retained.min' = 10 is more than"),
        (
            APPEND,
            "changelog.num-retained.min=5 changelog.num-retained.max=4",
            "'changelog.num-retained.min' = 5 is more",
        ),
        (APPEND, "streaming-read-overwrite=true", "set 'streaming-read-append-overwrite' instead"),
        (KEYED, "streaming-read-overwrite=true changelog-producer=lookup", "changes would be read twice"),
        (APPEND, "partition.expiration-time=7d", "needs partition keys"),
        # Options of columns
        (APPEND, "fields.nope.stats-mode=none", "names 'nope', which is not a column"),
        (KEYED, "rowkind.field=nope", "the rowkind field 'nope' is not a column"),
        (KEYED, "rowkind.field=s", r"'s' is TIMESTAMP\(3\), neither a STRING nor a number"),
        (KEYED, "file-index.bloom-filter.columns=nope", "bloom-filter.columns names the column 'nope'"),
        (KEYED, "file-index.bitmap.columns=l", "a bitmap index on the column 'l' of type ARRAY<INT>"),
        (KEYED, "sequence.field=nope", "the sequence field 'nope' is not a column"),
        (APPEND, "sequence.field=nope", "the sequence field 'nope' is not a column"),
        (KEYED, "sequence.field=s,s", "names 's' twice"),
        (KEYED, "sequence.field=s,,s", "has an empty name"),
        (KEYED, "sequence.field=s fields.s.aggregate-function=max", "takes no aggregate function"),
        (MOVING, "sequence.field=s", "keys that may move between partitions"),
        (KEYED, "merge-engine=first-row sequence.field=s", "first-row does not go with the option 'sequence.field'"),
        # Merge engines
        (KEYED, "merge-engine=aggregation fields.dt.aggregate-function=sum", "sum folds numeric types"),
        (KEYED, "merge-engine=partial-update fields.a.aggregate-function=sum", "needs a sequence group"),
        (
            KEYED,
            "merge-engine=partial-update fields.s.sequence-group=a fields.b.sequence-group=a",
            "two sequence groups",
        ),
        (
            KEYED,
            "merge-engine=partial-update fields.s.sequence-group=b fields.b.sequence-group=a",
            "orders another group",
        ),
        (
            KEYED,
            "merge-engine=partial-update ignore-delete=true partial-update.remove-record-on-delete=true",
            "contradict each other",
        ),
        # Changelogs and deletion vectors
        (APPEND, "changelog-producer=input", "Can not set changelog-producer on table without primary keys"),
        (KEYED, "merge-engine=first-row changelog-producer=input", "first-row does not go with 'changelog-producer'"),
        (KEYED, "deletion-vectors.enabled=true changelog-producer=full-compaction", "use none, input or lookup"),
        (KEYED, "deletion-vectors.enabled=true merge-engine=first-row", "first-row"),
        # Other rules
        (APPEND, "record-level.time-field=nope", "is not a column"),
        (APPEND, "record-level.time-field=dt", "not an INT, BIGINT or TIMESTAMP"),
        (APPEND, "table-read.sequence-number.enabled=true", "needs a primary key"),
    ],
)
def test_what_breaks_a_rule(table: dict[str, Any], options: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        check(table, options)


@pytest.mark.parametrize(
    ("table", "options", "problem"),
    [
        (KEYED, "merge-engine=newest", "deduplicate, partial-update, aggregation, first-row"),
        (KEYED, "merge-engine=aggregation fields.a.aggregate-function=median", "the aggregate function 'median'"),
        (KEYED, "merge-engine=aggregation fields.a.aggregate-function=count", "Paimon has removed it"),
        (APPEND, "scan.mode=incremental incremental-between=1,2", "changes which rows a read returns"),
        (APPEND, "file.format=avro", "the type TIMESTAMP"),
        (KEYED, "file.format.per.level=0:carbon", "the file format 'carbon'"),
        (PARTITIONED, "partition.expiration-time=7d partition.expiration-strategy=custom", "known values: values-time"),
        (PARTITIONED, "partition.expiration-time=7d partition.timestamp-formatter=QQQ", "in the time pattern 'QQQ'"),
    ],
)
def test_what_is_not_known_or_not_held(table: dict[str, Any], options: str, problem: str) -> None:
    columns = COLUMNS.replace("TIMESTAMP(3)", "TIMESTAMP(9)")
    with pytest.raises(MorrowError, match=problem):
        check(table, options, columns)


@pytest.mark.parametrize("name", ["_SEQUENCE_NUMBER", "_VALUE_KIND", "_LEVEL", "_ROW_ID", "rowkind", "_KEY_id"])
def test_the_names_of_paimons_own_columns(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"the column name '{name}' is one of Paimon's own"):
        check(APPEND, "", f"{name} INT")


@pytest.mark.parametrize(
    ("columns", "file_format"),
    [
        ("v VECTOR<FLOAT, 3>", "orc"),
        ("a ROW<v VECTOR<FLOAT, 3>>", "orc"),
        ("v VARIANT", "orc"),
        ("m MAP<INT, VARIANT>", "avro"),
        ("v VECTOR<FLOAT, 3>", "mosaic"),
        ("t TIMESTAMP_LTZ(9)", "avro"),
        ("t TIME(6)", "avro"),
    ],
)
def test_types_that_a_format_does_not_hold(columns: str, file_format: str) -> None:
    with pytest.raises(Unsupported, match=f"in {file_format} files is not supported"):
        check(APPEND, f"file.format={file_format}", columns)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("` ` INT", "is blank"),
        ("c CHAR(0)", "of no length"),
        ("r ROW<x INT, x STRING>", "have the member x twice"),
        ("v VECTOR<STRING, 3>", "have elements of STRING"),
        ("v VECTOR<VECTOR<INT, 1>, 3>", "the elements of vectors are BOOLEAN"),
        ("b BLOB", "needs 'data-evolution.enabled'; use BYTES instead"),
    ],
)
def test_columns_that_cannot_be(columns: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        check(APPEND, "", columns)


def test_incremental_clustering() -> None:
    check(APPEND, "clustering.columns=a clustering.incremental=true")
