"""All data files of a plan verified."""

from __future__ import annotations

from contextlib import suppress

from morrow.engine.errors import FileMissing
from morrow.engine.plan.file_facts import file_facts
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.readers.execution.verification.files import verified
from morrow.readers.execution.verification.report import Verification


def verified_plan(metadata: TableMetadata, plan: ScanPlan) -> Verification:
    """Returns the report on every data file of a plan.

    Raises:
        SnapshotExpired: files are gone because the snapshot has been removed meanwhile.
        CorruptFile, FileMissing, Unsupported, UnsafePath: metadata that cannot be read. StorageError.
    """
    with in_flight(plan, metadata.store):
        parts = [file_facts(metadata, part) for part in plan.parts]
        found = Verification(tuple(file for part, files in parts for file in verified(metadata, part, files)))
        if missing := [file.error for file in found.files if isinstance(file.error, FileMissing)]:
            with suppress(FileMissing), in_flight(plan, metadata.store):
                raise missing[0]  # which says whether the snapshot has been removed
    return found
