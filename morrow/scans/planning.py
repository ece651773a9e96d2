"""The plans of scans, made and told of in the log."""

from __future__ import annotations

import logging
import time

from morrow.engine.format.snapshot import Snapshot
from morrow.engine.plan.fallback import plan_with_fallback
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.planner import Outlines
from morrow.engine.plan.request import ScanRequest
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.telling import logger
from morrow.engine.wording import plural, size_text

log = logger(__name__)


def planned(metadata: TableMetadata, request: ScanRequest, outlines: Outlines | None = None) -> ScanPlan:
    """Plans a read, and logs what it opens and how long that took. Arguments and errors as for `plan_with_fallback`."""
    began = time.monotonic()
    # The schema was read for this request; with a fallback branch it is that of two branches, and no file's.
    known = metadata if request.options.other_branch is not None else metadata.knowing(request.schema)
    plan = plan_with_fallback(known, request, outlines)
    _tell(plan, metadata.where, time.monotonic() - began)
    return plan


def _tell(plan: ScanPlan, where: str, seconds: float) -> None:
    """Logs what a read opens: ``planned 3 of 10 files, 1.2 MiB, of snapshot 5``."""
    if not log.isEnabledFor(logging.INFO):
        return
    files = [file for part in plan.parts for file in part.files]
    known = max((step.of for step in plan.steps if step.name.startswith("files")), default=len(files))
    state = "no snapshot" if plan.snapshot is None else f"snapshot {plan.snapshot.id}"
    told = f"{len(files):,} of {plural(max(known, len(files)), 'file')}, {size_text(sum(file.size for file in files))}"
    log.info("%s: opened %s, planned %s, in %.2f s", where, state, told, seconds)


def read_manifests(metadata: TableMetadata, snapshot: Snapshot) -> None:
    """Reads what a plan of this snapshot will need, ahead of it."""
    from morrow.engine.plan import manifests_ahead

    manifests_ahead.read_manifests(metadata, snapshot)


def read_latest_files(metadata: TableMetadata) -> None:
    """Reads what a plan of the newest snapshot will probably need, while nothing tells yet which that is."""
    from morrow.engine.plan import manifests_ahead

    manifests_ahead.read_latest_files(metadata)
