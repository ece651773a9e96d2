"""The options for streams: their beginning and end, and the interval between checks."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.options.declared import scans
from morrow.engine.options.declaring import Declared, Stage
from morrow.engine.options.given import Options
from morrow.engine.options.registry import refuse
from morrow.engine.options.views import option, values

FULL, LATEST = "full", "latest"
BEGINNINGS = {
    "default": FULL,
    "full": FULL,
    "latest-full": FULL,
    "latest": LATEST,
    "from-snapshot": LATEST,
    "from-snapshot-full": FULL,
    "from-timestamp": LATEST,
}
"""``scan.mode`` -> whether a stream starts with all rows."""
OF_BATCHES = (scans.SCAN_TAG_NAME, scans.SCAN_WATERMARK, scans.SCAN_VERSION)
"""Options for the time travel of batches, at which no stream can begin."""


class StreamOptions(msgspec.Struct, frozen=True):
    """`start` is ``full`` or ``latest``; `snapshot` and `timestamp` (milliseconds or text) are its origin, if set.

    `bound` is the greatest watermark that is read, `delay` the least age of a snapshot, `interval` the time between
    checks for a new one.
    """

    start: str = FULL
    snapshot: int | None = None
    timestamp: int | str | None = None
    consumer_id: str | None = option(scans.CONSUMER_ID)
    begins_anew: bool = option(scans.CONSUMER_IGNORE_PROGRESS)
    bound: int | None = option(scans.SCAN_BOUNDED_WATERMARK)
    delay: timedelta | None = option(scans.STREAMING_READ_SNAPSHOT_DELAY)
    interval: timedelta | None = option(scans.CONTINUOUS_DISCOVERY_INTERVAL)


def parse_stream_options(options: Options, *, begins: bool) -> StreamOptions:
    """Parses the options.

    Args:
        begins: whether they say where the stream begins; False where the caller does.

    Raises:
        InvalidArgument: a value that does not parse, or a mode without the option that it needs.
        Unsupported: a start mode that streams do not have.
    """
    refuse(options.raw, options.where, Stage.STREAMING)
    parsed = values(StreamOptions, options)
    if not begins:
        return StreamOptions(**parsed)
    start, millis = _start(options), options.get(scans.SCAN_TIMESTAMP_MILLIS)
    timestamp = options.get(scans.SCAN_TIMESTAMP) if millis is None else millis
    return StreamOptions(start=start, snapshot=options.get(scans.SCAN_SNAPSHOT_ID), timestamp=timestamp, **parsed)


def _start(options: Options) -> str:
    for each in OF_BATCHES:
        if options.has(each):
            raise Unsupported(f"a stream of a table with the option {each}", where=options.where, hint="say its start")
    mode = options.get(scans.SCAN_MODE)
    if mode not in BEGINNINGS:
        raise Unsupported(f"a stream with {scans.SCAN_MODE} = {mode}", where=options.where, hint="say its start")
    by_time: tuple[Declared[int | None] | Declared[str | None], ...]
    by_time = (scans.SCAN_TIMESTAMP_MILLIS, scans.SCAN_TIMESTAMP)
    by_id = (scans.SCAN_SNAPSHOT_ID,)
    needed = {"from-snapshot": by_id, "from-snapshot-full": by_id, "from-timestamp": by_time}.get(mode, ())
    if needed and not any(map(options.has, needed)):
        raise InvalidArgument(f"{options.where}: {scans.SCAN_MODE} = {mode} needs the option {needed[0]}")
    if mode == scans.SCAN_MODE.default and any(map(options.has, (*by_id, *by_time))):
        return LATEST
    return BEGINNINGS[mode]
