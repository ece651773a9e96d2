"""Rules about features that other writers use: they hold for tables that Morrow changes without writing to them."""

from __future__ import annotations

from morrow.engine.format.types import BigIntType, BlobType, IntType, LocalZonedTimestampType, TimestampType
from morrow.engine.options.parsing import names
from morrow.engine.schema.validation.proposal import Proposal

TIME_TYPES = (IntType, BigIntType, TimestampType, LocalZonedTimestampType)


def record_expiration(proposal: Proposal) -> None:
    """The time of a record is a number or a timestamp."""
    name = proposal.raw.get("record-level.time-field")
    if name is not None:
        proposal.require_columns([name], "time field of 'record-level.time-field'")
        kind = proposal.schema.by_name[name].type
        proposal.require(
            isinstance(kind, TIME_TYPES), f"'record-level.time-field' {name!r} is {kind}, no INT, BIGINT or TIMESTAMP"
        )


def row_tracking(proposal: Proposal) -> None:
    """Rows are tracked in append tables without buckets; data evolution builds on it, BLOB columns on that."""
    tracking, evolution = proposal.options.row_tracking, proposal.options.data_evolution
    if tracking:
        proposal.require(proposal.options.bucket == -1, "'row-tracking.enabled' goes with 'bucket' = -1 only")
        proposal.require(not proposal.keyed, "'row-tracking.enabled' does not go with a primary key")
    if evolution:
        proposal.require(tracking, "'data-evolution.enabled' needs 'row-tracking.enabled'")
        for key in ("deletion-vectors.enabled", "clustering.incremental"):
            proposal.require(not proposal.flag(key), f"'data-evolution.enabled' does not go with {key!r}")
    blobs = [field.name for field in proposal.schema.fields if isinstance(field.type, BlobType)]
    if blobs:
        proposal.require(evolution, f"the BLOB column {blobs[0]!r} needs 'data-evolution.enabled'; use BYTES instead")
        proposal.require(len(blobs) < len(proposal.schema.fields), "a table has a column that is no BLOB")
        proposal.require(not set(blobs) & set(proposal.schema.partition_keys), "a BLOB column is no partition key")
    for name in names(proposal.raw.get("blob-descriptor-field")):
        proposal.require(name in blobs, f"'blob-descriptor-field' names {name!r}, which is no BLOB column")


def incremental_clustering(proposal: Proposal) -> None:
    """Append tables only; with buckets, rows have no order of arrival and no deletion vectors."""
    if not proposal.flag("clustering.incremental"):
        return
    proposal.require(not proposal.keyed, "'clustering.incremental' does not go with a primary key")
    if proposal.options.bucket != -1:
        proposal.require(
            not proposal.flag("bucket-append-ordered", True),
            "'clustering.incremental' with buckets needs 'bucket-append-ordered' = false",
        )
        proposal.require(
            not proposal.options.deletion_vectors,
            "'clustering.incremental' with buckets does not go with 'deletion-vectors.enabled'",
        )


def sequence_numbers(proposal: Proposal) -> None:
    """Only tables with a primary key have sequence numbers."""
    proposal.require(
        proposal.keyed or not proposal.flag("table-read.sequence-number.enabled"),
        "'table-read.sequence-number.enabled' needs a primary key",
    )


def upsert_key(proposal: Proposal) -> None:
    """``upsert-key`` stands in for a primary key where there is none."""
    found = names(proposal.raw.get("upsert-key"))
    proposal.require_columns(found, "upsert key")
    proposal.require(not (found and proposal.keyed), "'upsert-key' does not go with a primary key")


RULES = (record_expiration, row_tracking, incremental_clustering, sequence_numbers, upsert_key)
