"""What the options of a table say about how long snapshots and changelogs stay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.parsing import choice, duration, flag, integer
from morrow.engine.options.registry import resolved

UNLIMITED = 2**31 - 1
MILLI = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Retention:
    """Of the newest, at least `least` stay and at most `most`; in between those younger than `time` do."""

    most: int
    least: int
    time: timedelta

    @property
    def millis(self) -> int:
        return self.time // MILLI

    def check(self, where: str) -> None:
        """Raises `InvalidArgument` where the numbers contradict each other, or nothing would stay."""
        if self.least < 1:
            raise InvalidArgument(f"{where}: at least one must be retained, not {self.least}")
        if self.most < self.least:
            raise InvalidArgument(
                f"{where}: the most that are retained ({self.most}) must not be less than the least ({self.least})"
            )


@dataclass(frozen=True)
class ExpireOptions:
    """The options ``snapshot.*``, ``changelog.*`` and ``consumer.changelog-only``, parsed.

    `limit`: how many snapshots, and how many changelogs, one expiry removes at most.
    """

    snapshots: Retention
    changelogs: Retention
    limit: int
    clean_empty_directories: bool
    consumers_keep_changelogs_only: bool
    asynchronous: bool
    write_only: bool

    @property
    def decoupled(self) -> bool:
        """Whether changelogs stay longer than their snapshots."""
        mine, theirs = self.changelogs, self.snapshots
        return mine.most > theirs.most or mine.least > theirs.least or mine.time > theirs.time


def parse_expire_options(options: Mapping[str, str], *, where: str) -> ExpireOptions:
    """Parse the options of one schema, with Paimon's defaults; changelogs have those of snapshots.

    Raises:
        InvalidArgument: a value that does not parse. Unsupported: an unknown word.
    """
    raw = resolved(options)
    snapshots = _retention(raw, "snapshot", Retention(UNLIMITED, 10, timedelta(hours=1)), where)
    return ExpireOptions(
        snapshots=snapshots,
        changelogs=_retention(raw, "changelog", snapshots, where),
        limit=integer(raw, "snapshot.expire.limit", 50, where),
        clean_empty_directories=flag(raw, "snapshot.clean-empty-directories", False, where),
        consumers_keep_changelogs_only=flag(raw, "consumer.changelog-only", False, where),
        asynchronous=choice(raw, "snapshot.expire.execution-mode", "sync", ("sync", "async"), where) == "async",
        write_only=flag(raw, "write-only", False, where),
    )


def _retention(raw: Mapping[str, str], what: str, default: Retention, where: str) -> Retention:
    time = duration(raw, f"{what}.time-retained", default.time, where)
    return Retention(
        most=integer(raw, f"{what}.num-retained.max", default.most, where),
        least=integer(raw, f"{what}.num-retained.min", default.least, where),
        time=default.time if time is None else time,
    )
