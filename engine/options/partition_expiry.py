"""The options for the expiry of partitions: ``partition.expiration-*``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from morrow.engine.format.date_patterns import DatePattern, date_pattern
from morrow.engine.options.declared import history
from morrow.engine.options.given import Options
from morrow.engine.options.views import option, values
from morrow.engine.options.words import ExpireStrategy


class PartitionExpiryOptions(msgspec.Struct, frozen=True):
    """Partitions older than `expiration_time` expire (None: never), at most `max_num` at a time, `batch_size` a commit.

    `pattern` builds a time from the partition's values (``$year-$month-$day``; None: the first value is it), and
    `formatter` parses it. Writers check the partitions once per `check_interval`, and at the end of a batch if
    `at_end_of_input`. With `strict`, rows of partitions that `pattern` and `formatter` cannot read are refused.
    """

    expiration_time: timedelta | None = option(history.PARTITION_EXPIRATION_TIME)
    check_interval: timedelta = option(history.PARTITION_EXPIRATION_CHECK_INTERVAL)
    strategy: ExpireStrategy = option(history.PARTITION_EXPIRATION_STRATEGY)
    max_num: int = option(history.PARTITION_EXPIRATION_MAX_NUM)
    batch_size: int = history.PARTITION_EXPIRATION_MAX_NUM.default
    pattern: str | None = option(history.PARTITION_TIMESTAMP_PATTERN)
    formatter: DatePattern | None = None
    strict: bool = option(history.PARTITION_TIMESTAMP_FORMAT_STRICT)
    at_end_of_input: bool = option(history.END_INPUT_CHECK_PARTITION_EXPIRE)


def parse_partition_expiry(raw: Mapping[str, str], *, where: str) -> PartitionExpiryOptions:
    """Parses the options.

    Raises:
        InvalidArgument: a value that does not parse. Unsupported: another strategy, or a formatter letter that Morrow
            does not read.
    """
    options = Options(raw, where)
    parsed = values(PartitionExpiryOptions, options)
    batch_size = options.get(history.PARTITION_EXPIRATION_BATCH_SIZE)
    formatter = options.get(history.PARTITION_TIMESTAMP_FORMATTER)
    return PartitionExpiryOptions(
        batch_size=parsed["max_num"] if batch_size is None else batch_size,
        formatter=None if formatter is None else date_pattern(formatter),
        **parsed,
    )
