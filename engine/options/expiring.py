"""The options for the retention of snapshots and changelogs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.declared import compaction, history
from morrow.engine.options.given import Options
from morrow.engine.options.views import option, values

UNLIMITED = history.SNAPSHOT_NUM_RETAINED_MAX.default
MILLI = timedelta(milliseconds=1)


class Retention(msgspec.Struct, frozen=True):
    """The limits of retention: `least` to `most` of the newest are kept, in between those younger than `time`."""

    most: int
    least: int
    time: timedelta

    @property
    def millis(self) -> int:
        return self.time // MILLI

    def check(self, where: str) -> None:
        """Raises `InvalidArgument` where the numbers contradict each other, or nothing would be kept."""
        if self.least < 1:
            raise InvalidArgument(f"{where}: at least one must be retained, not {self.least}")
        if self.most < self.least:
            raise InvalidArgument(
                f"{where}: the most that are retained ({self.most}) must not be less than the least ({self.least})"
            )


class ExpireOptions(msgspec.Struct, frozen=True):
    """The options ``snapshot.*``, ``changelog.*`` and ``consumer.changelog-only``, parsed.

    `limit`: the most snapshots, and the most changelogs, that a writer removes after a commit.
    """

    snapshots: Retention
    changelogs: Retention
    limit: int = option(history.SNAPSHOT_EXPIRE_LIMIT)
    clean_empty_directories: bool = option(history.SNAPSHOT_CLEAN_EMPTY_DIRECTORIES)
    consumers_keep_changelogs_only: bool = option(history.CONSUMER_CHANGELOG_ONLY)
    write_only: bool = option(compaction.WRITE_ONLY)

    @property
    def decoupled(self) -> bool:
        """Whether changelogs are kept longer than their snapshots."""
        mine, theirs = self.changelogs, self.snapshots
        return mine.most > theirs.most or mine.least > theirs.least or mine.time > theirs.time


def parse_expire_options(options: Mapping[str, str], *, where: str) -> ExpireOptions:
    """Parses the options of one schema, with Paimon's defaults; those of changelogs are the snapshots'.

    Raises:
        InvalidArgument: a value that does not parse. Unsupported: an unknown word.
    """
    given = Options(options, where)
    snapshots = Retention(
        given.get(history.SNAPSHOT_NUM_RETAINED_MAX),
        given.get(history.SNAPSHOT_NUM_RETAINED_MIN),
        given.get(history.SNAPSHOT_TIME_RETAINED),
    )
    most, least, time = (
        given.get(history.CHANGELOG_NUM_RETAINED_MAX),
        given.get(history.CHANGELOG_NUM_RETAINED_MIN),
        given.get(history.CHANGELOG_TIME_RETAINED),
    )
    changelogs = Retention(
        snapshots.most if most is None else most,
        snapshots.least if least is None else least,
        snapshots.time if time is None else time,
    )
    return ExpireOptions(snapshots, changelogs, **values(ExpireOptions, given))
