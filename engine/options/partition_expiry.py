"""What the options of a table say about partitions that grow too old: ``partition.expiration-*``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from morrow.engine.format.date_patterns import DatePattern, date_pattern
from morrow.engine.options.parsing import choice, duration, flag, integer
from morrow.engine.options.registry import resolved

DEFAULT_CHECK_INTERVAL = timedelta(hours=1)
DEFAULT_MAX_NUM = 100


class ExpireStrategy(StrEnum):
    """What the age of a partition is: that of the time in its values, or of its newest file."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


@dataclass(frozen=True)
class PartitionExpiryOptions:
    """Partitions older than `expiration_time` go (None: none do), at most `max_num` at a time, `batch_size` a commit.

    `pattern` makes a time of the partition's values (``$year-$month-$day``; None: the first one is it), `formatter`
    reads it. Writers look at the partitions once in `check_interval`, and at the end of a batch if `at_end_of_input`.
    With `strict`, rows of partitions that `pattern` and `formatter` cannot read are refused.
    """

    expiration_time: timedelta | None = None
    check_interval: timedelta = DEFAULT_CHECK_INTERVAL
    strategy: ExpireStrategy = ExpireStrategy.VALUES_TIME
    max_num: int = DEFAULT_MAX_NUM
    batch_size: int = DEFAULT_MAX_NUM
    pattern: str | None = None
    formatter: DatePattern | None = None
    strict: bool = False
    at_end_of_input: bool = False


def parse_partition_expiry(raw: Mapping[str, str], *, where: str) -> PartitionExpiryOptions:
    """Read the options.

    Raises:
        InvalidArgument: a value that does not parse. Unsupported: another strategy, or a letter in the formatter that
            Morrow does not read.
    """
    raw = resolved(raw)
    max_num = integer(raw, "partition.expiration-max-num", DEFAULT_MAX_NUM, where)
    strategy = choice(raw, "partition.expiration-strategy", "values-time", tuple(ExpireStrategy), where)
    interval = duration(raw, "partition.expiration-check-interval", DEFAULT_CHECK_INTERVAL, where)
    formatter = raw.get("partition.timestamp-formatter")
    return PartitionExpiryOptions(
        expiration_time=duration(raw, "partition.expiration-time", None, where),
        check_interval=DEFAULT_CHECK_INTERVAL if interval is None else interval,
        strategy=ExpireStrategy(strategy),
        max_num=max_num,
        batch_size=integer(raw, "partition.expiration-batch-size", max_num, where),
        pattern=raw.get("partition.timestamp-pattern"),
        formatter=None if formatter is None else date_pattern(formatter),
        strict=flag(raw, "partition.timestamp-format.strict", False, where),
        at_end_of_input=flag(raw, "end-input.check-partition-expire", False, where),
    )
