"""Write options."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import Options
from morrow.engine.options.declarations import ChangelogProducer, LookupCompact
from morrow.engine.options.write_options import APPEND_TARGET_FILE_SIZE, WriteOptions, parse_write_options
from morrow.engine.structs import replace


def parsed(keyed: bool = True, **raw: str) -> WriteOptions:
    return parse_write_options({key.replace("_", "-"): value for key, value in raw.items()}, keyed=keyed, where="/t")


def test_the_defaults() -> None:
    assert parsed() == WriteOptions()
    assert parsed(keyed=False) == replace(WriteOptions(), target_file_size=APPEND_TARGET_FILE_SIZE)


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("file.format", "ORC", "file_format", "orc"),
        ("file.format.per.level", "0:AVRO,5:orc", "format_per_level", {0: "avro", 5: "orc"}),
        ("file.compression.zstd-level", "9", "zstd_level", 9),
        ("file.suffix.include.compression", "true", "suffix_includes_compression", True),
        ("target-file-size", "64 kb", "target_file_size", 65536),
        ("changelog-producer", "lookup", "changelog_producer", ChangelogProducer.LOOKUP),
        ("changelog-producer.row-deduplicate-ignore-fields", "a,b", "changelog_ignored_fields", ("a", "b")),
        ("num-sorted-run.stop-trigger", "2", "run_stop_trigger", 5),
        ("num-levels", "3", "levels", 3),
        ("compaction.optimization-interval", "1 h", "optimization_interval", timedelta(hours=1)),
        ("full-compaction.delta-commits", "4", "full_compaction_commits", 4),
        ("lookup-compact", "GENTLE", "lookup_compact", LookupCompact.GENTLE),
        ("deletion-vector.index-file.target-size", "1 kb", "deletion_file_size", 1024),
        ("lookup-compact.max-interval", "2", "lookup_compact_interval", 5),
        ("snapshot.ignore-empty-commit", "false", "force_create_snapshot", True),
        ("ignore-update-before", "true", "ignore_update_before", True),
        ("write.compaction-skip", "true", "write_only", True),
        ("postpone.default-bucket-num", "7", "postpone_buckets", 7),
        ("commit.max-retry-wait", "3 s", "commit_max_wait", timedelta(seconds=3)),
    ],
)
def test_options_that_writers_depend_on(key: str, value: str, name: str, expected: Any) -> None:
    assert getattr(parse_write_options({key: value}, keyed=True, where="/t"), name) == expected


def test_sizes_of_nothing_are_the_defaults() -> None:
    none = {"write-buffer-size": "0", "manifest.target-file-size": "0 b", "full-compaction.delta-commits": "0"}
    assert parse_write_options(none, keyed=True, where="/t") == replace(WriteOptions(), given=Options(none))


def test_levels_follow_the_trigger() -> None:
    options = parse_write_options({"num-sorted-run.compaction-trigger": "2"}, keyed=True, where="/t")
    assert (options.run_trigger, options.run_stop_trigger, options.levels, options.max_level) == (2, 5, 3, 2)


def test_off_peak_hours_have_a_start_and_an_end() -> None:
    raw = {"compaction.offpeak.start.hour": "22", "compaction.offpeak.end.hour": "6", "compaction.offpeak-ratio": "10"}
    options = parse_write_options(raw, keyed=True, where="/t")
    assert (options.off_peak_hours, options.off_peak_size_ratio) == ((22, 6), 10)
    del raw["compaction.offpeak.end.hour"]
    assert parse_write_options(raw, keyed=True, where="/t").off_peak_hours is None


def test_formats_and_codecs_by_level() -> None:
    raw = {"file.format.per.level": "0:avro", "file.compression.per.level": "0:snappy"}
    options = parse_write_options(raw, keyed=True, where="/t")
    assert [options.format_of(level) for level in (0, 1)] == ["avro", "parquet"]
    assert [options.compression_of(level) for level in (0, 1)] == ["snappy", "zstd"]


@pytest.mark.parametrize(
    ("key", "value", "error", "problem"),
    [
        ("file.format.per.level", "top:avro", InvalidArgument, "names the level 'top'"),
        ("changelog-producer", "some", Unsupported, "known values: none, input, full-compaction, lookup"),
        ("write-buffer-size", "much", InvalidArgument, "a size such as"),
        ("data-evolution.row-sidecar.enabled", "true", Unsupported, "does not write such tables"),
    ],
)
def test_what_is_refused(key: str, value: str, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=f"/t: .*{problem}"):
        parse_write_options({key: value}, keyed=True, where="/t")


def test_full_compaction_changelogs_do_not_go_with_vectors() -> None:
    """Neither new tables nor tables of other writers may have both, since a key would be read twice."""
    both = {"deletion-vectors.enabled": "true", "changelog-producer": "full-compaction"}
    with pytest.raises(Unsupported, match="set 'changelog-producer' to none, input or lookup"):
        parse_write_options(both, keyed=True, where="t")
    assert parse_write_options(both, keyed=False, where="t").deletion_vectors


def test_the_location_of_an_external_table_is_no_option_of_writes() -> None:
    parse_write_options({"path": "file:/lake/t"}, keyed=False, where="/lake/t")
    with pytest.raises(Unsupported, match="'path' = '/other'"):
        parse_write_options({"path": "/other"}, keyed=False, where="/lake/t")
