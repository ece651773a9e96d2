"""All options of Paimon 1.4.2: kinds of values, what never changes, what is refused, what looks like a slip."""

from __future__ import annotations

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.known import FORMER_KEYS, REFUSED_BECAUSE, TABLE, Treatment
from morrow.engine.options.registry import IMMUTABLE, OPTIONS, check_set, refuse_unhonoured, resolved


def set_option(key: str, value: str) -> None:
    check_set({key: value}, [key], "/t")


def test_the_table_is_whole() -> None:
    assert len(OPTIONS) == 283
    assert sum(len(words.split()) for words in TABLE.values()) == len(OPTIONS)
    refused = {key for key, option in OPTIONS.items() if option.treatment is Treatment.REFUSED}
    assert refused == REFUSED_BECAUSE.keys() & OPTIONS.keys()
    assert set(FORMER_KEYS.values()) <= OPTIONS.keys()


def test_what_is_immutable() -> None:
    words = """aggregation.remove-record-on-delete blob-descriptor-field blob-external-storage-field
        blob-external-storage-path bucket-function.type bucket-key data-evolution.enabled data-file.path-directory
        force-lookup index-file-in-data-file-dir merge-engine partial-update.remove-record-on-delete
        partial-update.remove-record-on-sequence-group partition pk-clustering-override primary-key
        row-tracking.enabled rowkind.field"""
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
        *("owner", "my.option", "fields.a.aggregate-function", "parquet.page.size", "scan.infer-parallelism"),
        *("tag.callback.org.x.Told.param", "commit.callback.org.x.Told.param"),
    ],
)
def test_what_paimon_does_not_know_is_kept(key: str) -> None:
    set_option(key, "anything")


@pytest.mark.parametrize(
    ("key", "harmless", "refused", "reason"),
    [
        ("record-level.expire-time", "", "1 d", "delete them with a filter"),
        ("pk-clustering-override", "FALSE", "true", "does not write such tables"),
        ("commit.callbacks", " ", "some.Class", "cannot call Java classes"),
        ("tag.callbacks", "", "some.Class", "cannot call Java classes"),
        ("type", "table", "format-table", "Paimon's own tables"),
        ("metadata.iceberg.storage", "disabled", "table-location", "Iceberg"),
        ("branch", "main", "b", "Table.on_branch"),
    ],
)
def test_what_writers_would_not_honour_is_refused(key: str, harmless: str, refused: str, reason: str) -> None:
    refuse_unhonoured({key: harmless}, "/t")
    with pytest.raises(Unsupported, match=f"^/t: the option '{key}' = '{refused}' is not supported; .*{reason}"):
        refuse_unhonoured({key: refused}, "/t")


def test_settings_of_tags_are_checked_together() -> None:
    set_option("tag.automatic-creation", "batch")
    set_option("tag.create-time", "02:30")  # of the proposal; it looks like tag.creation-delay
    with pytest.raises(InvalidArgument, match=r"'tag\.create-time' has the value '2:30'"):
        set_option("tag.create-time", "2:30")
    both = {"tag.create-time": "02:30", "tag.creation-delay": "1 h"}
    with pytest.raises(InvalidArgument, match="say the same thing twice"):
        check_set(both, ["tag.creation-delay"], "/t")
    check_set({**both, "write-only": "true"}, ["write-only"], "/t")  # others have stored them


def test_what_a_newer_paimon_would_write_is_refused() -> None:
    refuse_unhonoured({"primary-key.nullable": "false"}, "/t")
    with pytest.raises(Unsupported, match="'target-file-row-num' = '5' of a newer Paimon"):
        refuse_unhonoured({"target-file-row-num": "5"}, "/t")


def test_former_names_count_where_the_present_one_is_not_set() -> None:
    assert resolved({"write.compaction-skip": "true"})["write-only"] == "true"
    assert resolved({"write.compaction-skip": "true", "write-only": "false"})["write-only"] == "false"
    both = {"partial-update.ignore-delete": "true", "first-row.ignore-delete": "false"}
    assert resolved(both)["ignore-delete"] == "false"


def test_only_what_is_set_now_is_checked() -> None:
    check_set({"bucket": "x", "write-only": "true"}, ["write-only"], "/t")
