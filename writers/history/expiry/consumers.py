"""Expiry of inactive consumers, so that they pin no snapshots any more."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta

from morrow.engine.options import Options
from morrow.engine.options.declared.history import CONSUMER_EXPIRATION_TIME
from morrow.engine.plan.consumers import CONSUMER_PREFIX
from morrow.engine.plan.metadata import TableMetadata


def expire_consumers(metadata: TableMetadata, *, older_than_millis: int | None = None) -> list[str]:
    """Removes the consumers of a branch whose file was last written before a moment.

    Args:
        older_than_millis: the moment in epoch milliseconds; None: now minus ``consumer.expiration-time`` of the newest
            schema, and nothing where that is not set.

    Returns: the names of the removed consumers, sorted.

    Raises:
        InvalidArgument: the option does not parse. StorageError: a file could not be removed; all others were.
    """
    moment = older_than_millis
    if moment is None:
        kept = consumer_expiration_time(metadata.latest_schema().options, where=metadata.where)
        if kept is None:
            return []
        moment = time.time_ns() // 1_000_000 - kept // timedelta(milliseconds=1)
    folder = f"{metadata.paths.branch_root}/consumer"
    old = [
        status.name
        for status in metadata.store.list(folder)
        if status.name.startswith(CONSUMER_PREFIX) and not status.is_dir and status.modified_millis < moment
    ]
    if old:
        metadata.store.delete_many([f"{folder}/{name}" for name in old])
    return sorted(name.removeprefix(CONSUMER_PREFIX) for name in old)


def consumer_expiration_time(raw: Mapping[str, str], *, where: str) -> timedelta | None:
    """Returns how long a consumer may be inactive; None: for ever. Raises `InvalidArgument` for any other text."""
    return Options(raw, where).get(CONSUMER_EXPIRATION_TIME)
