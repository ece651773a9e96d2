"""Options of stored tables: a slip in one that decides about rows is refused, options of others are not."""

from __future__ import annotations

import pytest

from morrow.engine.errors import InvalidArgument
from morrow.engine.options import parse_options
from morrow.engine.options.misspelt import READ_BY


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
    with pytest.raises(InvalidArgument, match="looks like a slip") as raised:
        parse_options({key: "1"}, where="/t")
    assert repr(meant) in str(raised.value)


@pytest.mark.parametrize("key", READ_BY)
def test_every_option_that_reads_depend_on_is_missed(key: str) -> None:
    for at in range(len(key)):
        with pytest.raises(InvalidArgument, match="looks like a slip"):
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
