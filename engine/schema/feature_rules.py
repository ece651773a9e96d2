"""The rules of `validation` for features beyond columns, buckets and merges.

Examples are row tracking, BLOB columns, clustering, file indexes and Iceberg metadata.
"""

from __future__ import annotations

from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.file_formats import PARQUET
from morrow.engine.format.file_index.builder import PREFIX as INDEXES
from morrow.engine.format.file_index.builder import find_requested_indexes
from morrow.engine.format.iceberg_files import ROW_IDS_VERSION, can_promote, check_partition_types, to_iceberg_schema
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import (
    BigIntType,
    BlobType,
    IntType,
    LocalZonedTimestampType,
    TimestampType,
    has_type,
)
from morrow.engine.options import Options
from morrow.engine.options.declarations import BLOB_ENGINES, ChangelogProducer, parse_names
from morrow.engine.options.declared.features import (
    BLOB_DESCRIPTOR_FIELD,
    BLOB_FIELD,
    BLOB_VIEW_FIELD,
    METADATA_ICEBERG_FORMAT_VERSION,
    METADATA_ICEBERG_STORAGE,
)
from morrow.engine.options.declared.files import (
    FILE_FORMAT_PER_LEVEL,
)
from morrow.engine.options.declared.maintenance import (
    CLUSTERING_COLUMNS,
    CLUSTERING_INCREMENTAL,
)
from morrow.engine.options.declared.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_BITMAP64,
    DELETION_VECTORS_ENABLED,
    MERGE_ENGINE,
    RECORD_LEVEL_EXPIRE_TIME,
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
from morrow.engine.schema.proposal import Proposal

TIME_TYPES = (IntType, BigIntType, TimestampType, LocalZonedTimestampType)


def check_record_expiration(proposal: Proposal) -> None:
    """Check that the time of a record is a number or a timestamp."""
    name = proposal.given.get(RECORD_LEVEL_TIME_FIELD)
    proposal.require(
        name is not None or proposal.given.get(RECORD_LEVEL_EXPIRE_TIME) is None,
        f"{RECORD_LEVEL_EXPIRE_TIME} needs {RECORD_LEVEL_TIME_FIELD}, the column with the time of a row",
    )
    if name is not None:
        proposal.require_columns([name], f"time field of {RECORD_LEVEL_TIME_FIELD}")
        kind = proposal.schema.by_name[name].type
        proposal.require(
            isinstance(kind, TIME_TYPES),
            f"{RECORD_LEVEL_TIME_FIELD} {name!r} is {kind}, not an INT, BIGINT or TIMESTAMP",
        )


def check_row_tracking(proposal: Proposal) -> None:
    """Check row tracking.

    Only append tables without buckets support it. Data evolution requires row tracking.
    """
    tracking, evolution = proposal.options.row_tracking, proposal.options.data_evolution
    if tracking:
        proposal.require(proposal.options.bucket == -1, f"{ROW_TRACKING_ENABLED} goes with {BUCKET} = -1 only")
        proposal.require(not proposal.keyed, f"{ROW_TRACKING_ENABLED} does not go with a primary key")
    if evolution:
        proposal.require(tracking, f"{DATA_EVOLUTION_ENABLED} needs {ROW_TRACKING_ENABLED}")
        clustered = proposal.given.get(CLUSTERING_INCREMENTAL)
        proposal.require(not clustered, f"{DATA_EVOLUTION_ENABLED} does not go with {CLUSTERING_INCREMENTAL}")


def check_blob_columns(proposal: Proposal) -> None:
    """Check BLOB columns.

    They are columns, or the members of an ARRAY or MAP that is a column. Append tables need data evolution for them.
    Tables with a primary key need a merge engine that aggregates nothing, and no changelogs.
    """
    schema, given = proposal.schema, proposal.given
    blobs = [field.name for field in schema.fields if is_blob_type(field.type)]
    single = [field.name for field in schema.fields if isinstance(field.type, BlobType)]
    for field in schema.fields:
        nested = field.name not in blobs and has_type(field.type, BlobType)
        proposal.require(not nested, f"the column {field.name!r} is {field.type}; only BLOB, ARRAY<BLOB>, MAP<K, BLOB>")
    inline = [*given.get(BLOB_DESCRIPTOR_FIELD), *given.get(BLOB_VIEW_FIELD)]
    for option, allowed in ((BLOB_FIELD, blobs), (BLOB_DESCRIPTOR_FIELD, single), (BLOB_VIEW_FIELD, single)):
        for name in given.get(option):
            what = (
                "which is not a BLOB column"
                if name not in blobs
                else f"which is {schema.by_name[name].type}, not a BLOB"
            )
            proposal.require(name in allowed, f"{option} names {name!r}, {what}")
    distinct = len({*inline}) == len(inline)
    proposal.require(distinct, f"{BLOB_DESCRIPTOR_FIELD} and {BLOB_VIEW_FIELD} name a column twice")
    if not blobs:
        return
    needs = f"the BLOB column {blobs[0]!r} needs {DATA_EVOLUTION_ENABLED}; use BYTES instead"
    proposal.require(proposal.keyed or proposal.options.data_evolution, needs)
    proposal.require(not set(blobs) & set(schema.partition_keys), "a BLOB column cannot be a partition key")
    proposal.require(len(blobs) < len(schema.fields), "a table needs a column that is not a BLOB")
    if not proposal.keyed:
        return
    managed = [name for name in blobs if name not in inline]
    if managed:
        engine, producer = given.get(MERGE_ENGINE), given.get(CHANGELOG_PRODUCER)
        proposal.require(
            engine in BLOB_ENGINES, f"the BLOB column {managed[0]!r} does not go with {MERGE_ENGINE} = {engine}"
        )
        proposal.require(
            producer is ChangelogProducer.NONE,
            f"the BLOB column {managed[0]!r} does not go with {CHANGELOG_PRODUCER} = {producer}",
        )
        proposal.require(
            proposal.options.bucket != POSTPONE_BUCKET,
            f"the BLOB column {managed[0]!r} does not go with {BUCKET} = {POSTPONE_BUCKET}",
        )
        proposal.require(
            not proposal.options.external_roots, f"the BLOB column {managed[0]!r} does not go with external paths"
        )


def check_clustering(proposal: Proposal) -> None:
    """Check the columns that order the rows of an append table.

    With incremental clustering, buckets are possible if arrival order and deletion vectors are disabled.
    """
    columns = proposal.given.get(CLUSTERING_COLUMNS)
    if not proposal.keyed:
        proposal.require_columns(columns, "clustering column")
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


def check_sequence_numbers(proposal: Proposal) -> None:
    """Check that only tables with a primary key have sequence numbers."""
    proposal.require(
        proposal.keyed or not proposal.given.get(TABLE_READ_SEQUENCE_NUMBER_ENABLED),
        f"{TABLE_READ_SEQUENCE_NUMBER_ENABLED} needs a primary key",
    )


def check_upsert_key(proposal: Proposal) -> None:
    """Check that ``upsert-key`` is set only in tables without a primary key."""
    found = parse_names(proposal.given.get(UPSERT_KEY))
    proposal.require_columns(found, "upsert key")
    proposal.require(not (found and proposal.keyed), f"{UPSERT_KEY} does not go with a primary key")


def check_indexes(schema: TableSchema, where: str, before: TableSchema | None = None) -> None:
    """Check that the indexes requested by options can be built; otherwise every write would be refused.

    A table whose schema `before` requested such indexes may still be changed.

    Raises `InvalidArgument`: an index of a missing column, or of a column whose type does not support it.
    """
    if not any(key.startswith(INDEXES) for key in schema.options):
        return
    try:
        find_requested_indexes(schema.options, schema.fields)
    except MorrowError as error:
        if before is None or _has_indexes(before):
            raise InvalidArgument(f"{where}: {error}; change or unset its {INDEXES}* options, too") from error


def _has_indexes(schema: TableSchema) -> bool:
    try:
        find_requested_indexes(schema.options, schema.fields)
    except MorrowError:
        return False
    return True


def check_iceberg(proposal: Proposal) -> None:
    """Refuse Iceberg metadata of rows that Iceberg's readers would not read, or would read differently.

    Morrow writes field ids for Iceberg in Parquet files only, as Java does.

    Raises `InvalidArgument`: an option that contradicts it. `Unsupported`: a column of a type that Iceberg lacks.
    """
    if proposal.given.get(METADATA_ICEBERG_STORAGE) == "disabled":
        return
    version, given = proposal.given.get(METADATA_ICEBERG_FORMAT_VERSION), proposal.given
    beside = f"{METADATA_ICEBERG_STORAGE} = {given.get(METADATA_ICEBERG_STORAGE)}"
    proposal.require(version in (2, ROW_IDS_VERSION), f"{METADATA_ICEBERG_FORMAT_VERSION} is {version}; set 2 or 3")
    to_iceberg_schema(proposal.schema, version, proposal.where)
    check_partition_types(proposal.schema, proposal.where)
    formats = {proposal.options.file_format, *given.get(FILE_FORMAT_PER_LEVEL).values()}
    proposal.require(formats == {PARQUET}, f"{beside} does not go with {', '.join(sorted(formats))}; write parquet")
    proposal.require(
        not proposal.options.deletion_vectors or (version == ROW_IDS_VERSION and given.get(DELETION_VECTORS_BITMAP64)),
        f"{beside} with {DELETION_VECTORS_ENABLED} needs {METADATA_ICEBERG_FORMAT_VERSION} = 3 and "
        f"{DELETION_VECTORS_BITMAP64} = true; otherwise Iceberg's readers would return deleted rows",
    )
    proposal.require(
        not given.get(DATA_EVOLUTION_ENABLED),
        f"{beside} does not go with {DATA_EVOLUTION_ENABLED}: Iceberg's files hold all columns of their rows",
    )


def check_iceberg_change(schema: TableSchema, where: str, before: TableSchema | None) -> None:
    """Refuse a new type of a column in which Iceberg's readers would not read the files written before.

    Raises `InvalidArgument`: such a change of a table with Iceberg metadata.
    """
    if before is None or Options(schema.options, where).get(METADATA_ICEBERG_STORAGE) == "disabled":
        return
    old = {field.id: field.type for field in before.fields}
    for field in schema.fields:
        if field.id in old and not can_promote(old[field.id], field.type):
            raise InvalidArgument(
                f"{where}: column {field.name!r} cannot change from {old[field.id]} to {field.type} beside Iceberg "
                f"metadata, which knows wider types of numbers only; add a column, or set {METADATA_ICEBERG_STORAGE} = "
                "disabled"
            )


FEATURE_RULES = (
    check_iceberg,
    check_record_expiration,
    check_row_tracking,
    check_blob_columns,
    check_clustering,
    check_sequence_numbers,
    check_upsert_key,
)
