"""All options of Paimon: value kinds, options that never change, refused options and likely slips."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options import Options
from morrow.engine.options.declarations import Stage
from morrow.engine.options.declared.maintenance import WRITE_ONLY
from morrow.engine.options.declared.merging import IGNORE_DELETE
from morrow.engine.options.documentation import format_default
from morrow.engine.options.table_options import (
    IMMUTABLE,
    OPTIONS,
    THEMES,
    check_new_options,
    find_options,
    list_options,
    refuse_options,
    resolve_former_keys,
)


def set_option(key: str, value: str) -> None:
    check_new_options({key: value}, [key], "/t")


def refuse_unhonoured(raw: dict[str, str], where: str) -> None:
    refuse_options(raw, where, Stage.WRITING)


def test_every_option_is_declared_once() -> None:
    declared = [option for theme in THEMES for option in list_options(theme)]
    assert len(declared) == len(OPTIONS)
    for option in declared:
        assert option.doc and not option.doc.endswith("."), option
        assert not (option.idle and option.refusal), option
        assert not set(option.former) & OPTIONS.keys(), option


def test_defaults_are_of_their_kind_and_never_refused() -> None:
    with_default = [option for option in OPTIONS.values() if format_default(option) is not None]
    assert with_default
    for option in with_default:
        text = str(format_default(option))
        assert option.kind.accepts(text), option
        assert option.kind.parse(text) == option.default, option
        refuse_options({option.key: text}, "/t")


def test_what_is_immutable() -> None:
    words = """aggregation.remove-record-on-delete blob-descriptor-field blob-external-storage-field
        blob-external-storage-path bucket-function.type bucket-key data-evolution.enabled data-file.path-directory
        force-lookup index-file-in-data-file-dir merge-engine partial-update.remove-record-on-delete
        partial-update.remove-record-on-sequence-group partition pk-clustering-override primary-key
        row-tracking.enabled rowkind.field blob-field blob-view-field dynamic-bucket.initial-buckets
        manifest.format partition.default-name partition.legacy-name primary-key.nullable
        sequence.snapshot-ordering type"""
    assert set(words.split()) == IMMUTABLE


@pytest.mark.parametrize(
    ("key", "good", "bad", "expected"),
    [
        ("bucket", "-2", " 3", "a whole number of 32 bits"),
        ("bucket", "+4", str(2**31), "a whole number of 32 bits"),
        ("scan.snapshot-id", str(2**40), "x", "a whole number of 64 bits"),
        ("write-only", "TRUE", "yes", "true or false"),
        ("compaction.delete-ratio-threshold", "0.5", "half", "a number"),
        ("target-file-size", "64 MB", "64 x", "a size such as"),
        ("commit.timeout", "10 s", "soon", "a time span such as"),
        ("file.format.per.level", "0:avro", "avro", "pairs such as"),
        ("changelog-producer", "FULL-COMPACTION", "some", "one of none, input, full-compaction, lookup"),
        ("commit.user-prefix", "anything", None, ""),
        ("changelog-producer.lookup-wait", "false", "no", "true or false"),
    ],
)
def test_values_have_the_kind_of_their_option(key: str, good: str, bad: str | None, expected: str) -> None:
    set_option(key, good)
    if bad is not None:
        with pytest.raises(
            InvalidArgument, match=f"/t: the option {key!r} has the value {bad!r}; it must be {expected}"
        ):
            set_option(key, bad)


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("bukcet", "bucket"),
        ("merge_engine", "merge-engine"),
        ("deletion-vector.enabled", "deletion-vectors.enabled"),
        ("Sequence.Field", "sequence.field"),
        ("target.file.size", "target-file-size"),
    ],
)
def test_a_slip_of_the_pen_is_refused(slip: str, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=f"there is no option {slip!r}; did you mean {meant!r}"):
        set_option(slip, "1")


@pytest.mark.parametrize(
    "key",
    [
        *(
            "owner",
            "my.option",
            "fields.a.aggregate-function",
            "parquet.page.row.count.limit",
            "lance.write-batch",
        ),
        *("tag.callback.org.x.Told.param", "tag.callback.a.param", "commit.callback.org.x.Told.param"),
    ],
)
def test_what_paimon_does_not_know_is_kept(key: str) -> None:
    set_option(key, "anything")


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("fields.x.aggregate-funtion", "did you mean 'fields.x.aggregate-function'"),
        ("fields.a,b.sequence_group", "did you mean 'fields.a,b.sequence-group'"),
        ("fields.x.Distinct", "did you mean 'fields.x.distinct'"),
        ("fields.x.weight", "the options of a column are aggregate-function, "),
        ("fields.x.y.aggregate-funtion", "did you mean"),
        ("parquet.compresion", "did you mean 'parquet.compression'"),
        ("orc.stripe.sizes", "did you mean 'orc.stripe.size'"),
        ("fields.default-aggregate-functions", "did you mean 'fields.default-aggregate-function'"),
    ],
)
def test_options_of_columns_are_known(key: str, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"/t: there is no option '{key}'.*{problem}|/t: .*{problem} '{key}'"):
        set_option(key, "1")


@pytest.mark.parametrize(
    ("key", "good", "bad"),
    [
        ("fields.x.ignore-retract", "true", "yes"),
        ("fields.x.count-limit", "3", "many"),
        ("fields.x.map.storage-layout", "default", "columns"),
        ("fields.a,b.sequence-group", "c", None),
        ("fields.x.y.ignore-retract", "true", "yes"),
        ("fields.x.map.map.storage-layout", "default", "columns"),
    ],
)
def test_options_of_columns_have_kinds(key: str, good: str, bad: str | None) -> None:
    set_option(key, good)
    if bad is not None:
        with pytest.raises(InvalidArgument, match="has the value"):
            set_option(key, bad)


@pytest.mark.parametrize("key", ["mode", "header", "quote", "seq"])
def test_common_words_that_csv_takes_too_are_anybodys(key: str) -> None:
    set_option(key, "fast")
    refuse_options({key: "fast"}, "/t", Stage.READING)


def test_functions_of_other_packages_have_options_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = {"fields.x.aggregate-function": "mean", "fields.x.weight": "2"}
    with pytest.raises(InvalidArgument, match=r"there is no option 'fields\.x\.weight'"):
        check_new_options(raw, raw, "/t")
    mean = EntryPoint("mean", "other:MEAN", "morrow.aggregate_functions")
    monkeypatch.setattr(
        "morrow.engine.options.table_options.entry_points", lambda **wanted: EntryPoints([mean]).select(**wanted)
    )
    check_new_options(raw, raw, "/t")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("compaction.small-file-ratio", "0.5"),
        ("scan.parallelism", "4"),
        ("sink.writer-cpu", "2.0"),
        ("write.use-v2-write", "true"),
        ("lookup.cache-rows", "10"),
        ("global-index.search-mode", "full"),
        ("csv.quote-character", "'"),
        ("read.parallelism", "2"),
        ("lineSep", ";"),
    ],
)
def test_options_of_newer_versions_and_connectors_are_known(key: str, value: str) -> None:
    assert find_options(key)
    set_option(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("incremental-between", "1,2"),
        ("scan.mode", "incremental"),
        ("scan.plan-sort-partition", "true"),
        ("stream-scan-mode", "file-monitor"),
        ("json.ignore-parse-errors", "true"),
    ],
)
def test_what_would_not_do_what_one_expects_is_refused_when_it_is_set(key: str, value: str) -> None:
    with pytest.raises(Unsupported, match=f"the option '{key}' = '{value}' is not supported; "):
        set_option(key, value)


@pytest.mark.parametrize(
    ("key", "harmless", "refused", "reason"),
    [
        ("commit.strict-mode.last-safe-snapshot", None, "1", "serialised"),
        ("pk-clustering-override", "FALSE", "true", "changes which rows"),
        ("commit.callbacks", " ", "some.Class", "cannot call Java classes"),
        ("tag.callbacks", "", "some.Class", "cannot call Java classes"),
        ("type", "table", "format-table", "Paimon's own tables"),
        ("metadata.iceberg.storage", "table-location", "hive-catalog", "Iceberg"),
        ("branch", "main", "b", "Table.on_branch"),
    ],
)
def test_what_writers_would_not_honour_is_refused(key: str, harmless: str | None, refused: str, reason: str) -> None:
    if harmless is not None:
        refuse_unhonoured({key: harmless}, "/t")
    with pytest.raises(Unsupported, match=f"^/t: the option '{key}' = '{refused}' is not supported; .*{reason}"):
        refuse_unhonoured({key: refused}, "/t")


def test_settings_of_tags_are_checked_together() -> None:
    set_option("tag.automatic-creation", "batch")
    set_option("tag.create-time", "02:30")  # an option of the proposal that resembles tag.creation-delay
    with pytest.raises(InvalidArgument, match=r"'tag\.create-time' has the value '2:30'"):
        set_option("tag.create-time", "2:30")
    both = {"tag.create-time": "02:30", "tag.creation-delay": "1 h"}
    with pytest.raises(InvalidArgument, match="say the same thing twice"):
        check_new_options(both, ["tag.creation-delay"], "/t")
    check_new_options({**both, "write-only": "true"}, ["write-only"], "/t")  # other writers have stored them


def test_what_a_newer_paimon_would_write_is_refused() -> None:
    refuse_unhonoured({"primary-key.nullable": "false"}, "/t")
    with pytest.raises(Unsupported, match="'target-file-row-num' = '5' is not supported; Morrow closes"):
        refuse_unhonoured({"target-file-row-num": "5"}, "/t")
    with pytest.raises(Unsupported, match=r"'orc\.encrypt' = 'key:id' is not supported; Morrow neither encrypts"):
        refuse_unhonoured({"orc.encrypt": "key:id"}, "/t")


def test_former_names_count_where_the_present_one_is_not_set() -> None:
    assert resolve_former_keys({"write.compaction-skip": "true"})["write-only"] == "true"
    assert resolve_former_keys({"write.compaction-skip": "true", "write-only": "false"})["write-only"] == "false"
    both = {"partial-update.ignore-delete": "true", "first-row.ignore-delete": "false"}
    assert resolve_former_keys(both)["ignore-delete"] == "false"


@pytest.mark.parametrize(
    ("raw", "read", "write_only"),
    [
        ({"write.compaction-skip": "true"}, False, True),
        ({"write.compaction-skip": "true", "write-only": "false"}, False, False),
        ({"partial-update.ignore-delete": "true"}, True, False),
        ({"partial-update.ignore-delete": "true", "first-row.ignore-delete": "false"}, False, False),
    ],
)
def test_former_keys_are_read_in_their_order(raw: dict[str, str], read: bool, write_only: bool) -> None:
    assert Options(raw).get(IGNORE_DELETE) is read
    assert Options(raw).get(WRITE_ONLY) is write_only


def test_only_what_is_set_now_is_checked() -> None:
    check_new_options({"bucket": "x", "write-only": "true"}, ["write-only"], "/t")
