"""Read options: which are parsed, which are kept unparsed, and which are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import Options, TableOptions, parse_options
from morrow.engine.options.declarations import Stage
from morrow.engine.options.declared.merging import IGNORE_DELETE
from morrow.engine.options.table_options import OPTIONS, READ_BY, TRAVEL_KEYS

REFUSED = {
    key: option.refusal for key, option in OPTIONS.items() if option.refusal and Stage.READING in option.refusal.stages
}


def parsed(raw: Mapping[str, str]) -> TableOptions:
    return parse_options(raw, where="/t")


def test_the_defaults() -> None:
    assert parsed({}) == TableOptions()


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("merge-engine", "FIRST-ROW", "merge_engine", "first-row"),
        ("bucket", " 4 ", "bucket", 4),
        ("bucket", "-2", "bucket", -2),
        ("bucket-key", "a, b", "bucket_key", ("a", "b")),
        ("bucket-function.type", "hive", "bucket_function", "hive"),
        ("file.format", "ORC", "file_format", "orc"),
        ("deletion-vectors.enabled", "TRUE", "deletion_vectors", True),
        ("sequence.field", "s,, t ", "sequence_fields", ("s", "t")),
        ("sequence.field.sort-order", "descending", "sequence_descending", True),
        ("partition.default-name", "__none__", "partition_default_name", "__none__"),
        ("partition.legacy-name", "false", "legacy_partition_name", False),
        ("data-file.path-directory", "/data/x/", "data_directory", "data/x"),
        ("data-file.path-directory", "", "data_directory", None),
        ("data-file.external-paths", "file:///a, s3://b/c", "external_roots", ("file:///a", "s3://b/c")),
        ("index-file-in-data-file-dir", "true", "index_in_data_dir", True),
        ("file-index.read.enabled", "false", "file_index_enabled", False),
        ("row-tracking.enabled", "true", "row_tracking", True),
        ("data-evolution.enabled", "true", "data_evolution", True),
        ("scan.fallback-branch", "b", "fallback_branch", "b"),
    ],
)
def test_options_that_reads_depend_on(key: str, value: str, name: str, expected: Any) -> None:
    assert getattr(parsed({key: value}), name) == expected


@pytest.mark.parametrize("key", IGNORE_DELETE.keys)
def test_ignore_delete_has_several_names(key: str) -> None:
    assert parsed({key: "true"}).ignore_delete
    assert not parsed({key: "false"}).ignore_delete


@pytest.mark.parametrize("key", TRAVEL_KEYS)
def test_stored_time_travel_is_kept_for_the_scan(key: str) -> None:
    assert parsed({key: "7", "bucket": "1"}).travel == {key: "7"}


@given(st.dictionaries(st.text(), st.text()))
def test_unknown_options_are_kept_and_change_nothing(raw: dict[str, str]) -> None:
    raw = {f"x.{key}": value for key, value in raw.items()}
    options = parsed(raw)

    assert options.raw == raw
    assert options == TableOptions(Options(raw))


def test_what_changes_the_rows_of_a_read() -> None:
    keys = """batch-scan-mode
        incremental-between incremental-between-timestamp incremental-to-auto-tag
        orc.encrypt orc.mask parquet.crypto.factory.class
        pk-clustering-override primary-key.nullable query-auth.enabled scan.bucket
        scan.creation-time-millis scan.file-creation-time-millis scan.mode type"""
    assert set(keys.split()) == REFUSED.keys()


@pytest.mark.parametrize("key", REFUSED)
def test_options_that_are_refused_unless_they_say_nothing(key: str) -> None:
    for value in REFUSED[key].unless:
        assert parsed({key: value.upper()}).raw == {key: value.upper()}
    with pytest.raises(Unsupported, match=f"^/t: the option '{key}' = 'odd' is not supported; "):
        parsed({key: "odd"})


def test_options_of_a_column_that_are_refused() -> None:
    parsed({"fields.m.map-storage-layout": "default"})
    with pytest.raises(Unsupported, match=r"the option 'fields\.m\.map-storage-layout'"):
        parsed({"fields.m.map-storage-layout": "shared-shredding"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("merge-engine", "newest"), ("bucket-function.type", "murmur"), ("sequence.field.sort-order", "random")],
)
def test_a_choice_that_is_not_known(key: str, value: str) -> None:
    with pytest.raises(Unsupported, match=f"the option '{key}' = '{value}' is not supported; known values: "):
        parsed({key: value})


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("bucket", "many", "must be a whole number"),
        ("bucket", "", "must be a whole number"),
        ("deletion-vectors.enabled", "yes", "must be true or false"),
        ("partition.legacy-name", "", "must be true or false"),
        ("data-file.path-directory", "../elsewhere", "leads outside of the table"),
        ("data-file.path-directory", "a/../../b", "leads outside of the table"),
    ],
)
def test_a_value_that_does_not_parse_names_table_and_option(key: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: the option '{key}' .*{problem}"):
        parsed({key: value})


# Options of stored tables: slips in options that affect rows are refused, others are ignored.


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("merge-enginf", "merge-engine"),
        ("sequence.fielf", "sequence.field"),
        ("deletion-vectors.enablee", "deletion-vectors.enabled"),
        ("delet)on-vectors.enabled", "deletion-vectors.enabled"),
        ("deletion-vectors.Enabled", "deletion-vectors.enabled"),
        ("fields.x.aggregate-funtion", "fields.x.aggregate-function"),
        ("fields.x,y.sequence-grouq", "fields.x,y.sequence-group"),
        ("fieldt.x.aggregate-function", "fields.x.aggregate-function"),
        ("fields&x.aggregate-function", "fields.x.aggregate-function"),
        ("fields.x.aggrn", "fields.x.aggregate-function"),
        ("fields.default-aggregate-functio", "fields.default-aggregate-function"),
    ],
)
def test_a_slip_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match="looks like a misspelling") as raised:
        parse_options({key: "1"}, where="/t")
    assert repr(meant) in str(raised.value)


@pytest.mark.parametrize("key", READ_BY)
def test_every_option_that_reads_depend_on_is_missed(key: str) -> None:
    for at in range(len(key)):
        with pytest.raises(InvalidArgument, match="looks like a misspelling"):
            parse_options({key[:at] + "~" + key[at + 1 :]: "1"}, where="/t")


@pytest.mark.parametrize(
    "key",
    [
        *(
            "custom.x",
            "paimon.x",
            "my own",
            "",
            ".",
            "connector",
            "owner",
            "hive.metastore.uris",
            "sequence",
            "buckets",
        ),
        *(
            "paths",
            "fields.x.stats-mode",
            "fields.x",
            "x.aggregate-function",
            "snapshot.num-retained.mim",
            "format",
        ),
        *("read.batch-size", "sink.parallelism", "scan.parallelism", "parquet.bloom.filter.enabled", "engine"),
    ],
)
def test_options_of_others_are_left_alone(key: str) -> None:
    parse_options({key: "1"}, where="/t")
