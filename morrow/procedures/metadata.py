"""Procedures for metadata: manifests, files that are lost, the hint of the oldest snapshot."""

from __future__ import annotations

from morrow.engine.errors import Unsupported
from morrow.engine.options.declared import commits
from morrow.engine.plan.manifests import manifests_of
from morrow.engine.telling import logger
from morrow.procedures.procedure import (
    DONE,
    RESULT,
    Call,
    Kind,
    Parameter,
    Procedure,
    Rows,
    known_options,
    required,
)
from morrow.writers.commit.manifest_compaction import compact_manifests
from morrow.writers.history.cleaning.repair import repair_earliest_snapshot
from morrow.writers.operations.overriding import with_options
from morrow.writers.target import WriteTarget

MANIFEST_OPTIONS = (
    commits.MANIFEST_TARGET_FILE_SIZE,
    commits.MANIFEST_COMPRESSION,
    commits.COMMIT_MAX_RETRIES,
    commits.COMMIT_TIMEOUT,
    commits.COMMIT_MIN_RETRY_WAIT,
    commits.COMMIT_MAX_RETRY_WAIT,
)

log = logger(__name__)


def _compact_manifest(
    call: Call,
    options: str | None,
    dry_run: bool | None,
    manifest_sort_enabled: bool | None,
    manifest_sort_partition_field: str | None,
    manifest_sort_max_rewrite_size: str | None,
) -> Rows:
    if manifest_sort_enabled or manifest_sort_partition_field or manifest_sort_max_rewrite_size:
        raise Unsupported("compact_manifest with manifest_sort_*", hint="manifests are merged in their order")
    given = known_options(options, MANIFEST_OPTIONS, "compact_manifest")
    target = with_options(WriteTarget.of(call.metadata), dict(given.raw))
    if dry_run:
        _tell(target)
    else:
        compact_manifests(target)
    return DONE


def _tell(target: WriteTarget) -> None:
    """Logs what there is to merge: the result of a dry run has no place for it."""
    latest = target.metadata.latest_snapshot()
    listed = None if latest is None else manifests_of(target.metadata, latest)
    count, size = (0, 0) if listed is None else (listed.height, int(listed["_FILE_SIZE"].sum()))
    deleted = 0 if listed is None else int((listed["_NUM_DELETED_FILES"] > 0).sum())
    log.info("%s: %d manifests of %d bytes, %d of which delete files", target.where, count, size, deleted)


def _remove_unexisting_files(call: Call, dry_run: bool | None, parallelism: int | None) -> Rows:
    return [
        (path,)
        for table in call.tables
        for path in table.remove_unexisting_files(bool(dry_run), parallelism=parallelism)
    ]


def _repair_earliest_snapshot(call: Call, snapshot_id: int) -> Rows:
    return [(repair_earliest_snapshot(call.metadata, snapshot_id), snapshot_id)]


_MANIFESTS = (
    *(Parameter("options"), Parameter("dry_run", Kind.BOOLEAN), Parameter("manifest_sort_enabled", Kind.BOOLEAN)),
    *(Parameter("manifest_sort_partition_field"), Parameter("manifest_sort_max_rewrite_size")),
)
_MISSING = (Parameter("dry_run", Kind.BOOLEAN), Parameter("parallelism", Kind.INT))
_EARLIEST = "previous_earliest_snapshot_id BIGINT NOT NULL, current_earliest_snapshot_id BIGINT NOT NULL"

PROCEDURES = (
    Procedure("compact_manifest", _MANIFESTS, RESULT, _compact_manifest),
    Procedure("remove_unexisting_files", _MISSING, "fileName STRING NOT NULL", _remove_unexisting_files),
    Procedure(
        "repair_earliest_snapshot", (required("snapshot_id", Kind.BIGINT),), _EARLIEST, _repair_earliest_snapshot
    ),
)
