"""The time of a partition, parsed from its values by ``partition.timestamp-pattern`` and ``-formatter``.

Values are formatted as Java prints its own: a DATE is its epoch days, which no formatter parses; partitions by DATE
expire by ``update-time``. Without a formatter a time is ``yyyy-MM-dd HH:mm:ss`` or ``yyyy-MM-dd``, parsed leniently:
digits may be fewer, and the 30th of February is the first or second of March.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.binary_row import Value
from morrow.engine.format.date_patterns import MOST_YEAR, epoch_day
from morrow.engine.format.partition_path import partition_path, unescape_path_name
from morrow.engine.format.types import DataField
from morrow.engine.options.declared import history
from morrow.engine.options.partition_expiry import PartitionExpiryOptions, parse_partition_expiry
from morrow.engine.units import NANOS_PER_DAY, NANOS_PER_SECOND
from morrow.writers.target import WriteTarget

DEFAULT_FORMAT = re.compile(
    r"(-?[0-9]{1,10})-(-?[0-9]{1,2})-(-?[0-9]{1,2})"
    r"(?: (-?[0-9]{1,2}):(-?[0-9]{1,2}):(-?[0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)
MINUS_ZERO = re.compile("-0+(?![0-9])")


def partition_time(options: PartitionExpiryOptions, fields: Sequence[DataField], values: Sequence[Value]) -> int | None:
    """Returns the nanoseconds from 1970-01-01 to the time of a partition, both on a clock without zone.

    Args:
        fields: the partition columns.
        values: their values, as `decode_row` returns them.

    Returns: None for a partition without a time: a value is null, or the text of its values does not parse.

    Raises:
        Unsupported: a column type whose values have no text form.
    """
    known = list(values) if options.pattern is not None else [values[0]]
    if any(value is None for value in known):
        return None
    texts = [_java_text(value, field) for value, field in zip(known, fields)]
    text = texts[0]
    if options.pattern is not None:
        text = options.pattern
        for field, part in zip(fields, texts):  # one after the other, as in Java: $m also matches in $month
            text = text.replace(f"${field.name}", part)
    return default_time(text) if options.formatter is None else options.formatter.read(text)


def partition_check(target: WriteTarget) -> Callable[[bytes], None]:
    """Returns the check that a writer calls with each new partition (BinaryRow).

    With ``partition.timestamp-format.strict`` it raises `InvalidArgument` for a partition that
    ``partition.timestamp-pattern`` and ``-formatter`` do not parse; without either of these it checks nothing.

    Raises:
        InvalidArgument, Unsupported: as `parse_partition_expiry`, where the table is strict.
    """
    raw, fields = target.schema.options, target.partition_fields
    if not fields or not target.options.given.get(history.PARTITION_TIMESTAMP_FORMAT_STRICT):
        return lambda _: None
    options = parse_partition_expiry(raw, where=target.where)

    def check(partition: bytes) -> None:
        values = target.partition_values(partition)
        if partition_time(options, fields, values) is None:
            named = ", ".join(f"{field.name}={value!r}" for field, value in zip(fields, values))
            raise InvalidArgument(
                f"{target.where}: the partition {named} is no time as {history.PARTITION_TIMESTAMP_PATTERN} and "
                f"{history.PARTITION_TIMESTAMP_FORMATTER} want it; correct the rows, or take off "
                f"{history.PARTITION_TIMESTAMP_FORMAT_STRICT}"
            )

    return check if options.pattern is not None or options.formatter is not None else lambda _: None


def default_time(text: str) -> int | None:
    """Parses a time in the default format into the nanoseconds of `partition_time`; None for any other text."""
    match = DEFAULT_FORMAT.fullmatch(text)
    if match is None or MINUS_ZERO.search(re.sub("(?<=[0-9])-", " ", text)):
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    years, months = divmod(month - 1, 12)
    if abs(year) > MOST_YEAR:
        return None
    days = epoch_day(year + years, months + 1, day)
    seconds = (hour * 60 + minute) * 60 + second
    return days * NANOS_PER_DAY + seconds * NANOS_PER_SECOND + int((match[7] or "").ljust(9, "0"))


def _java_text(value: Value, field: DataField) -> str:
    folder = partition_path([value], [field.type], ["v"], legacy_name=True)
    return unescape_path_name(folder.removeprefix("v="))
