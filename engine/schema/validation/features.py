"""Rules about features of other writers: they hold for tables that Morrow changes without writing to them."""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format.file_index.wanted import PREFIX as INDEXES
from morrow.engine.format.file_index.wanted import wanted_indexes
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import BigIntType, BlobType, IntType, LocalZonedTimestampType, TimestampType
from morrow.engine.options.declared.compaction import CLUSTERING_INCREMENTAL
from morrow.engine.options.declared.features import BLOB_DESCRIPTOR_FIELD
from morrow.engine.options.declared.merging import (
    DELETION_VECTORS_ENABLED,
    RECORD_LEVEL_TIME_FIELD,
    TABLE_READ_SEQUENCE_NUMBER_ENABLED,
)
from morrow.engine.options.declared.table import (
    BUCKET,
    BUCKET_APPEND_ORDERED,
    DATA_EVOLUTION_ENABLED,
    ROW_TRACKING_ENABLED,
    UPSERT_KEY,
)
from morrow.engine.options.kinds import names
from morrow.engine.schema.validation.proposal import Proposal

TIME_TYPES = (IntType, BigIntType, TimestampType, LocalZonedTimestampType)


def record_expiration(proposal: Proposal) -> None:
    """Checks that the time of a record is a number or a timestamp."""
    name = proposal.given.get(RECORD_LEVEL_TIME_FIELD)
    if name is not None:
        proposal.require_columns([name], f"time field of {RECORD_LEVEL_TIME_FIELD}")
        kind = proposal.schema.by_name[name].type
        proposal.require(
            isinstance(kind, TIME_TYPES), f"{RECORD_LEVEL_TIME_FIELD} {name!r} is {kind}, no INT, BIGINT or TIMESTAMP"
        )


def row_tracking(proposal: Proposal) -> None:
    """Checks row tracking: append tables without buckets only; data evolution needs it, BLOB columns data evolution."""
    tracking, evolution = proposal.options.row_tracking, proposal.options.data_evolution
    if tracking:
        proposal.require(proposal.options.bucket == -1, f"{ROW_TRACKING_ENABLED} goes with {BUCKET} = -1 only")
        proposal.require(not proposal.keyed, f"{ROW_TRACKING_ENABLED} does not go with a primary key")
    if evolution:
        proposal.require(tracking, f"{DATA_EVOLUTION_ENABLED} needs {ROW_TRACKING_ENABLED}")
        for option in (DELETION_VECTORS_ENABLED, CLUSTERING_INCREMENTAL):
            proposal.require(not proposal.given.get(option), f"{DATA_EVOLUTION_ENABLED} does not go with {option}")
    blobs = [field.name for field in proposal.schema.fields if isinstance(field.type, BlobType)]
    if blobs:
        proposal.require(evolution, f"the BLOB column {blobs[0]!r} needs {DATA_EVOLUTION_ENABLED}; use BYTES instead")
        proposal.require(len(blobs) < len(proposal.schema.fields), "a table has a column that is no BLOB")
        proposal.require(not set(blobs) & set(proposal.schema.partition_keys), "a BLOB column is no partition key")
    for name in proposal.given.get(BLOB_DESCRIPTOR_FIELD):
        proposal.require(name in blobs, f"{BLOB_DESCRIPTOR_FIELD} names {name!r}, which is no BLOB column")


def incremental_clustering(proposal: Proposal) -> None:
    """Checks for an append table; if it has buckets, rows have no order of arrival and no deletion vectors."""
    if not proposal.given.get(CLUSTERING_INCREMENTAL):
        return
    proposal.require(not proposal.keyed, f"{CLUSTERING_INCREMENTAL} does not go with a primary key")
    if proposal.options.bucket != -1:
        proposal.require(
            not proposal.given.get(BUCKET_APPEND_ORDERED),
            f"{CLUSTERING_INCREMENTAL} with buckets needs {BUCKET_APPEND_ORDERED} = false",
        )
        proposal.require(
            not proposal.options.deletion_vectors,
            f"{CLUSTERING_INCREMENTAL} with buckets does not go with {DELETION_VECTORS_ENABLED}",
        )


def sequence_numbers(proposal: Proposal) -> None:
    """Checks that only tables with a primary key have sequence numbers."""
    proposal.require(
        proposal.keyed or not proposal.given.get(TABLE_READ_SEQUENCE_NUMBER_ENABLED),
        f"{TABLE_READ_SEQUENCE_NUMBER_ENABLED} needs a primary key",
    )


def upsert_key(proposal: Proposal) -> None:
    """Checks that ``upsert-key`` replaces a primary key only where there is none."""
    found = names(proposal.given.get(UPSERT_KEY))
    proposal.require_columns(found, "upsert key")
    proposal.require(not (found and proposal.keyed), f"{UPSERT_KEY} does not go with a primary key")


def check_indexes(schema: TableSchema, where: str, before: TableSchema | None = None) -> None:
    """Checks that the indexes that options ask for can be built: else every write would be refused.

    A table that had such indexes `before` may be changed all the same.

    Raises:
        InvalidArgument: an index of no column, or of one whose type has none.
    """
    if not any(key.startswith(INDEXES) for key in schema.options):
        return
    try:
        wanted_indexes(schema.options, schema.fields)
    except MorrowError as error:
        if before is None or _has_indexes(before):
            raise InvalidArgument(f"{where}: {error}; change or unset its {INDEXES}* options, too") from error


def _has_indexes(schema: TableSchema) -> bool:
    try:
        wanted_indexes(schema.options, schema.fields)
    except MorrowError:
        return False
    return True


RULES = (record_expiration, row_tracking, incremental_clustering, sequence_numbers, upsert_key)
