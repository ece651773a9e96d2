"""Scans of tables that were scanned before: made anew where the table has changed."""

from __future__ import annotations

from collections.abc import Hashable

from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.io.cache import ByteCache
from morrow.engine.plan.newest_state import newest_state
from morrow.engine.plan.time_travel import NOW, travel_of_options
from morrow.scans.table_scan import Scan

MOST = 32
_KEPT: ByteCache[Scan] = ByteCache(MOST)
"""Scans with their plans; each counts as one."""


def forget() -> None:
    """Drops all scans."""
    _KEPT.clear()


def kept(key: Hashable) -> Scan | None:
    """Returns the scan that was kept, None where there is none or the newest schema or snapshot is not its own.

    Both are read from the table. Raises as `newest_state`.
    """
    scan = _KEPT.get(key)
    if scan is None:
        return None
    request = scan.request
    return scan if newest_state(scan._metadata) == (request.schema, request.snapshot) else None


def keep(key: Hashable, scan: Scan) -> None:
    """Keeps a scan of the newest state, if nothing but that decides of what it is: of a main branch on a local disk."""
    options, metadata = scan.request.options, scan._metadata
    is_newest = scan.request.travel == NOW and travel_of_options(options.travel).is_latest
    is_alone = metadata.branch == MAIN_BRANCH and options.other_branch is None
    if is_newest and is_alone and metadata.store.is_local:
        _KEPT.put(key, scan, 1)
