"""The tags of a table: listed, created, changed and deleted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.snapshot import Snapshot, Tag
from morrow.engine.options.tagging import time_span
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Time, at_time, to_millis
from morrow.engine.telling import one_line
from morrow.engine.wording import duration_text
from morrow.scans.travelling import Age, epoch_millis

Retained: TypeAlias = dt.timedelta | float | str | None
"""The time for which a tag is retained: a `timedelta`, seconds, or text such as ``1 d``."""


class Tags:
    """The tags of a table: named snapshots that expiry keeps. It is also a collection: ``"v1" in t.tags``."""

    HEADERS = ("name", "snapshot", "time", "records", "created", "retained")

    def __init__(self, metadata: TableMetadata) -> None:
        self._metadata = metadata

    # Looking

    def list(self) -> Sequence[Tag]:
        """Returns all tags by the id of their snapshot; each has ``.name``, ``.snapshot`` and, if known,
        ``.create_time``.
        """
        return self._metadata.tags()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tags, sorted."""
        return tuple(self._metadata.tag_names())

    def get(self, name: str) -> Tag:
        """Returns the tag of this name. Raises `TagNotFound`."""
        return self._metadata.tag(name)

    def previous(self, name: str) -> Tag | None:
        """Returns the last tag whose snapshot was committed before this tag's; None when this is the first.

        Raises `TagNotFound`.
        """
        here = self.get(name).snapshot.time_millis
        earlier = [tag for tag in self.list() if tag.snapshot.time_millis < here]
        return max(earlier, key=_place, default=None)

    def next(self, name: str) -> Tag | None:
        """Returns the first tag whose snapshot was committed after this tag's; None when this is the last.

        Raises `TagNotFound`.
        """
        here = self.get(name).snapshot.time_millis
        later = [tag for tag in self.list() if tag.snapshot.time_millis > here]
        return min(later, key=_place, default=None)

    # Making

    def create(
        self,
        name: str,
        snapshot: int | Snapshot | None = None,
        time_retained: Retained = None,
        ignore_if_exists: bool = False,
        *,
        timestamp: Time | None = None,
    ) -> Tag:
        """Tags a snapshot: names it and keeps it, with all its files, when it expires.

        Args:
            name: not a number, and without / and \\.
            snapshot: an id, or one of `Table.snapshots`; None for the newest. An expired snapshot can be tagged as long
                as another tag keeps it.
            time_retained: for how long the tag is retained: a timedelta, seconds, or text such as ``'1 d'``. None:
                ``tag.default-time-retained``, or for ever.
            ignore_if_exists: return the existing tag of this name, unchanged.
            timestamp: tag the newest snapshot that was committed at or before this time.

        Raises:
            InvalidArgument: the call is wrong. AlreadyExists: the tag exists.
            SnapshotNotFound, SnapshotExpired: no such snapshot, or not any more; no tag was made.
        """
        from morrow.writers.history.tags.creation import create_tag

        if snapshot is not None and timestamp is not None:
            raise InvalidArgument("give only one of snapshot, timestamp")
        found = snapshot if timestamp is None else at_time(self._metadata, to_millis(timestamp))
        span = _span(time_retained)
        return create_tag(self._metadata, name, found, time_retained=span, ignore_if_exists=ignore_if_exists)

    def create_from_timestamp(self, name: str, timestamp: Time, time_retained: Retained = None) -> Tag:
        """Tags the first snapshot committed at or after a time, also one that has expired and is kept by a tag.

        Raises as `create`; `SnapshotNotFound`: all are older.
        """
        from morrow.writers.history.tags.creation import create_tag, first_since

        found = first_since(self._metadata, to_millis(timestamp))
        return create_tag(self._metadata, name, found, time_retained=_span(time_retained))

    def create_due(self, now: dt.datetime | None = None) -> Sequence[Tag]:
        """Creates the automatic tags that are due (``tag.automatic-creation`` by process time or watermark).

        Commits do so by themselves; call it from a scheduler for tables with long pauses. It then commits an empty
        snapshot to carry the tag.

        Args:
            now: the current time (UTC without a zone); None for the clock.

        Returns: the tags created.
        """
        from morrow.writers.history.tags.automatic import create_due

        if now is not None and not isinstance(now, dt.datetime):
            raise InvalidArgument(f"now must be a datetime, not {now!r}")
        moment = now.replace(tzinfo=dt.UTC) if now is not None and now.tzinfo is None else now
        return create_due(self._metadata, now=moment)

    # Changing

    def rename(self, name: str, new_name: str) -> Tag:
        """Renames a tag.

        Raises:
            TagNotFound, AlreadyExists. InvalidArgument: an invalid tag name.
        """
        from morrow.writers.history.tags.changing import rename_tag

        return rename_tag(self._metadata, name, new_name)

    def replace(self, name: str, snapshot: int | Snapshot | None = None, time_retained: Retained = None) -> Tag:
        """Moves a tag to another snapshot (None: the newest), retained for the time given (None: for ever).

        Files that only its old snapshot needs are removed.

        Raises:
            TagNotFound, SnapshotNotFound, SnapshotExpired, InvalidArgument: nothing was changed.
        """
        from morrow.writers.history.tags.changing import replace_tag

        return replace_tag(self._metadata, name, snapshot, time_retained=_span(time_retained))

    # Deleting

    def delete(self, name: str, ignore_if_not_exists: bool = False) -> bool:
        """Deletes a tag and the files that nothing else needs; returns False when there was none.

        Raises:
            TagNotFound: no such tag, and `ignore_if_not_exists` is false.
            StorageError: the tag is gone, some files are not; the next maintenance removes them.
        """
        from morrow.writers.history.tags.deletion import delete_tag

        return delete_tag(self._metadata, name, ignore_if_not_exists=ignore_if_not_exists)

    def expire(self, older_than: Age | None = None) -> Sequence[str]:
        """Deletes expired tags, whose retention time is over; returns their names.

        Args:
            older_than: delete also tags that were created before this moment, or are of this age (a timedelta, or text
                such as ``7 days``). A tag without a retention time does not record its creation; the time of its file
                counts.
        """
        from morrow.writers.history.tags.retention import expire_tags

        return expire_tags(self._metadata, older_than=_moment(older_than))

    # Being looked at

    def __iter__(self) -> Iterator[Tag]:
        return iter(self.list())

    def __len__(self) -> int:
        return len(self._metadata.tag_names())

    def __contains__(self, name: object) -> bool:
        return name in self._metadata.tag_names()

    def __repr__(self) -> str:
        return "\n".join(f"{one_line(tag.name)}: snapshot {tag.snapshot.id}" for tag in self.list()) or "no tags"

    def _repr_html_(self) -> str:
        from morrow.html.tables import table

        return table(self.HEADERS, [_row(tag) for tag in self.list()])


def _place(tag: Tag) -> tuple[int, int, str]:
    return tag.snapshot.time_millis, tag.snapshot.id, tag.name


def _row(tag: Tag) -> tuple[str, ...]:
    records, created, retained = tag.snapshot.total_record_count, tag.create_time, tag.time_retained
    return (
        tag.name,
        str(tag.snapshot.id),
        tag.snapshot.time.isoformat(sep=" ", timespec="milliseconds"),
        "" if records is None else str(records),
        "" if created is None else created.isoformat(sep=" ", timespec="milliseconds"),
        "" if retained is None else duration_text(retained),
    )


def _span(retained: Retained) -> dt.timedelta | None:
    if retained is None or isinstance(retained, dt.timedelta):
        return retained
    if isinstance(retained, str):
        return time_span(retained)
    if isinstance(retained, bool) or not isinstance(retained, (int, float)):
        raise InvalidArgument(f"time_retained is a timedelta, seconds, or text such as '1 d', not {retained!r}")
    try:
        return dt.timedelta(seconds=retained)
    except (OverflowError, ValueError) as error:
        raise InvalidArgument(f"time_retained cannot be {retained!r} seconds; leave it out to keep the tag") from error


def _moment(age: Age | None) -> dt.datetime | None:
    millis = epoch_millis(age)
    try:
        return None if millis is None else dt.datetime.fromtimestamp(0, tz=dt.UTC) + dt.timedelta(milliseconds=millis)
    except OverflowError as error:
        raise InvalidArgument(f"older_than = {age!r} is neither an age nor a time: {error}") from error
