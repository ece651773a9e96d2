from __future__ import annotations

from datetime import timedelta

import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.date_patterns import date_pattern
from morrow.engine.options.partition_expiry import PartitionExpiryOptions, parse_partition_expiry
from morrow.engine.options.words import ExpireStrategy


def test_without_options_nothing_expires() -> None:
    options = parse_partition_expiry({}, where="t")
    assert options == PartitionExpiryOptions()
    assert options.expiration_time is None
    assert (options.check_interval, options.max_num, options.batch_size) == (timedelta(hours=1), 100, 100)
    assert options.strategy is ExpireStrategy.VALUES_TIME


def test_all_options() -> None:
    assert parse_partition_expiry(
        {
            "partition.expiration-time": "7 d",
            "partition.expiration-check-interval": "0 s",
            "partition.expiration-strategy": "update-time",
            "partition.expiration-max-num": "5",
            "partition.timestamp-pattern": "$dt",
            "partition.timestamp-formatter": "yyyyMMdd",
            "partition.timestamp-format.strict": "true",
            "end-input.check-partition-expire": "true",
        },
        where="t",
    ) == PartitionExpiryOptions(
        expiration_time=timedelta(days=7),
        check_interval=timedelta(0),
        strategy=ExpireStrategy.UPDATE_TIME,
        max_num=5,
        batch_size=5,  # as max-num, unless it is given
        pattern="$dt",
        formatter=date_pattern("yyyyMMdd"),
        strict=True,
        at_end_of_input=True,
    )


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("partition.expiration-time", "soon", InvalidArgument),
        ("partition.expiration-max-num", "many", InvalidArgument),
        ("partition.expiration-strategy", "by-moon", Unsupported),
        ("partition.timestamp-formatter", "YYYY-ww", Unsupported),
        ("partition.timestamp-formatter", "yyyy}", InvalidArgument),
    ],
)
def test_what_does_not_parse_is_refused(key: str, value: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        parse_partition_expiry({key: value}, where="t")
