"""The enumerated values of options on which code depends."""

from __future__ import annotations

from enum import StrEnum


class ChangelogProducer(StrEnum):
    """The source of changelog files."""

    NONE = "none"
    INPUT = "input"
    FULL_COMPACTION = "full-compaction"
    LOOKUP = "lookup"


class LookupCompact(StrEnum):
    """The urgency of compacting level 0 for lookups: at each write, or within an interval of writes."""

    RADICAL = "radical"
    GENTLE = "gentle"


class ExpireStrategy(StrEnum):
    """The age of a partition: that of the time in its values, or of its newest file."""

    VALUES_TIME = "values-time"
    UPDATE_TIME = "update-time"


class TagCreation(StrEnum):
    """The occasions for automatic tag creation."""

    NONE = "none"
    PROCESS_TIME = "process-time"
    WATERMARK = "watermark"
    BATCH = "batch"


class Period(StrEnum):
    """The named periods."""

    DAILY = "daily"
    HOURLY = "hourly"
    TWO_HOURS = "two-hours"


class PeriodFormatter(StrEnum):
    """The format of a period's time in the name of its tag."""

    WITH_DASHES = "with_dashes"
    WITHOUT_DASHES = "without_dashes"
    WITHOUT_DASHES_AND_SPACES = "without_dashes_and_spaces"
