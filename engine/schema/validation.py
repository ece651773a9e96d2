"""The rules of Paimon 1.4.2 and of Morrow's writers for a schema and its options before it is stored.

A rule is a function that takes a `Proposal` and raises if the proposal breaks the rule. The rules run in order, the
cheapest first. The rules about features of other writers apply to tables that Morrow changes without writing to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from morrow.engine.arguments import check_text
from morrow.engine.errors import MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.blobs import is_blob_type
from morrow.engine.format.file_formats import PARQUET, get_written_format
from morrow.engine.format.map_shredding import LAYOUT_SUFFIX, is_shareable
from morrow.engine.format.paths import POSTPONE_BUCKET
from morrow.engine.format.schema import SYSTEM_NAMES, TableSchema
from morrow.engine.format.variant_shredding import parse_shredding_types
from morrow.engine.merge.engines import check_merge
from morrow.engine.merge.spec import check_new_field_names, split_names
from morrow.engine.names import KEY_PREFIX
from morrow.engine.options import Options
from morrow.engine.options.declarations import FIELDS, AnyOption, ChangelogProducer
from morrow.engine.options.declared import scans
from morrow.engine.options.declared.features import (
    BLOB_DESCRIPTOR_FIELD,
    BLOB_VIEW_FIELD,
    VARIANT_SHREDDING_SCHEMA,
    VECTOR_FIELD,
    VECTOR_FILE_FORMAT,
)
from morrow.engine.options.declared.files import (
    CHANGELOG_FILE_FORMAT,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_FORMAT_PER_LEVEL,
)
from morrow.engine.options.declared.maintenance import (
    FULL_COMPACTION_DELTA_COMMITS,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
    WRITE_ONLY,
)
from morrow.engine.options.declared.merging import (
    AGGREGATE_FUNCTION,
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_ENABLED,
    LOOKUP_WAIT,
    MAP_STORAGE_LAYOUT,
    PK_BITMAP_INDEX_COLUMNS,
    PK_BTREE_INDEX_COLUMNS,
    PK_MULTIVALUE_INDEX_COLUMNS,
    PK_VECTOR_INDEX_COLUMNS,
    ROWKIND_FIELD,
    SEQUENCE_FIELD,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from morrow.engine.options.declared.table import (
    BUCKET,
    BUCKET_FUNCTION_TYPE,
    BUCKET_KEY,
    CHAIN_TABLE_CHAIN_PARTITION_KEYS,
    CHAIN_TABLE_ENABLED,
    DATA_EVOLUTION_ENABLED,
    ROW_TRACKING_ENABLED,
)
from morrow.engine.options.retention import parse_expire_options, parse_partition_expiry
from morrow.engine.options.table_options import check_new_options
from morrow.engine.plan.time_travel import EVERY_START, IMPLIED, SNAPSHOT, START_MODES, TAG, Start
from morrow.engine.schema.columns import check_cases, iterate_types
from morrow.engine.schema.feature_rules import FEATURE_RULES, check_iceberg_change, check_indexes
from morrow.engine.schema.proposal import Proposal

WITHOUT_KEYS = (t.ArrayType, t.MapType, t.MultisetType, t.RowType, t.VectorType, t.VariantType, t.BlobType)
SIZED = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)


def check_column_names(proposal: Proposal) -> None:
    """Check that columns do not have the names of Paimon's system columns, nor an empty name."""
    proposal.require(bool(proposal.schema.fields), "a table needs at least one column")
    for name in proposal.schema.by_name:
        proposal.require(bool(name.strip()), f"the column name {name!r} is blank")
        if name in SYSTEM_NAMES or name.startswith(KEY_PREFIX):
            raise proposal.refused(
                f"the column name {name!r} is one of Paimon's own ({', '.join(SYSTEM_NAMES)}, {KEY_PREFIX}...)"
            )


def check_column_types(proposal: Proposal) -> None:
    """Check that types have a size, that vectors hold numbers, and that names inside rows are distinct."""
    for path, kind in iterate_types(proposal.schema):
        check_text(path, f"{proposal.where}: the name of a column")
        if isinstance(kind, SIZED):
            proposal.require(1 <= kind.length <= t.MAX_LENGTH, f"the column {path!r} has the type {kind} of no length")
        if isinstance(kind, t.VectorType):
            proposal.require(
                isinstance(kind.element, t.VECTOR_ELEMENT_TYPES),
                f"the vectors of column {path!r} have elements of {kind.element}; the elements of vectors are "
                "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT or DOUBLE",
            )
        if isinstance(kind, t.RowType):
            members = [field.name for field in kind.fields]
            twice = sorted({name for name in members if members.count(name) > 1})
            proposal.require(not twice, f"the rows of column {path!r} have the member {', '.join(twice)} twice")


def check_keys(proposal: Proposal) -> None:
    """Check that keys exist, are not nested, and leave more than one row to a partition."""
    schema = proposal.schema
    for what, found in (("primary key", schema.primary_keys), ("partition key", schema.partition_keys)):
        proposal.require_columns(found, what)
        for name in found:
            kind = schema.by_name[name].type
            proposal.require(not isinstance(kind, WITHOUT_KEYS), f"the {what} {name!r} has the type {kind}")
    if schema.primary_keys and set(schema.primary_keys) <= set(schema.partition_keys):
        raise proposal.refused(
            f"the primary key ({', '.join(schema.primary_keys)}) is made of partition keys only, which leaves one row "
            "to a partition; add a column to the primary key"
        )


def check_file_formats(proposal: Proposal) -> None:
    """Check that every format of data files supports every type of a column."""
    given, where = proposal.given, proposal.where
    found = {proposal.options.file_format, *given.get(FILE_FORMAT_PER_LEVEL).values()}
    apart = given.get(VECTOR_FILE_FORMAT)
    if apart is not None:
        _check_vector_files(proposal, apart.lower())
    if proposal.keyed and (changelog := given.get(CHANGELOG_FILE_FORMAT)) is not None:
        found.add(changelog)
    for name in sorted(found):
        lacks = get_written_format(name, where).lacks
        assert lacks is not None  # formats that Morrow writes declare their types
        for path, kind in iterate_types(proposal.schema):
            if apart is not None and isinstance(kind, t.VectorType) and path in proposal.schema.by_name:
                continue  # in files of its own
            if (reason := lacks(kind)) is not None:
                raise Unsupported(f"the type {kind} of column {path!r} in {name} files", where=where, hint=reason)


def check_vector_columns(proposal: Proposal) -> None:
    """Check that ``vector-field`` names VECTOR columns."""
    names = proposal.given.get(VECTOR_FIELD)
    proposal.require_columns(names, f"column of {VECTOR_FIELD}")
    for name in names:
        kind = proposal.schema.by_name[name].type
        proposal.require(
            isinstance(kind, t.VectorType),
            f"{VECTOR_FIELD} names {name!r}, which is {kind}; declare it as VECTOR<t, n>",
        )


def check_shredding(proposal: Proposal) -> None:
    """Check that ``variant.shreddingSchema`` is the JSON of a ROW of types for parts of variants."""
    if (text := proposal.given.get(VARIANT_SHREDDING_SCHEMA)) is not None:
        parse_shredding_types(text, proposal.where)


def check_shared_maps(proposal: Proposal) -> None:
    """Check the columns and options of a table with maps in shared columns."""
    shared = MAP_STORAGE_LAYOUT.default
    options, by_name = proposal.schema.options, proposal.schema.by_name
    named = {
        key.removeprefix(FIELDS).removesuffix(LAYOUT_SUFFIX): key for key in options if key.endswith(LAYOUT_SUFFIX)
    }
    found = [name for name, key in named.items() if options[key].strip().lower() != shared]
    if not found:
        return
    proposal.require_columns(found, "column of map.storage-layout")
    for name in found:
        kind = by_name[name].type
        proposal.require(is_shareable(kind), f"map.storage-layout names {name!r}, not a MAP of texts: it is {kind}")
        keys_are_given = isinstance(kind, t.MapType) and not kind.key.nullable
        proposal.require(keys_are_given, f"map.storage-layout names {name!r}, whose keys may be null; declare NOT NULL")
    for path, kind in iterate_types(proposal.schema):
        never = isinstance(kind, (t.VariantType, t.MultisetType))
        apart = isinstance(kind, (t.BlobType, t.VectorType)) and path.split(".")[0] in found
        proposal.require(not never and not apart, f"map.storage-layout does not go with {path!r}, a {kind}")
    given = proposal.given
    formats = {
        proposal.options.file_format,
        *given.get(FILE_FORMAT_PER_LEVEL).values(),
        given.get(CHANGELOG_FILE_FORMAT),
    }
    if other := sorted(each for each in formats if each not in (None, PARQUET)):
        raise Unsupported(f"maps in shared columns of {other[0]} files", where=proposal.where, hint="choose parquet")
    codecs = {given.get(FILE_COMPRESSION), *given.get(FILE_COMPRESSION_PER_LEVEL).values()}
    other = sorted(each for each in codecs if each.lower() not in ("zstd", "lz4", "none"))
    proposal.require(not other, f"map.storage-layout goes with the codecs zstd, lz4 and none, not {', '.join(other)}")
    postponed = proposal.keyed and proposal.options.bucket == POSTPONE_BUCKET
    proposal.require(not postponed, f"map.storage-layout does not go with {BUCKET} = {POSTPONE_BUCKET}")


def _check_vector_files(proposal: Proposal, name: str) -> None:
    """Check that the format of files of vectors holds vectors, and that the table can have such files."""
    vectors = [field for field in proposal.schema.fields if isinstance(field.type, t.VectorType)]
    lacks = get_written_format(name, proposal.where).lacks
    for field in vectors:
        if lacks is not None and (reason := lacks(field.type)) is not None:
            what = f"the type {field.type} of column {field.name!r} in {name} files"
            raise Unsupported(what, where=proposal.where, hint=reason)
    if vectors:
        proposal.require(
            proposal.options.row_tracking and proposal.options.data_evolution,
            f"{VECTOR_FILE_FORMAT} needs {ROW_TRACKING_ENABLED} and {DATA_EVOLUTION_ENABLED}",
        )
        inline = (*proposal.given.get(BLOB_DESCRIPTOR_FIELD), *proposal.given.get(BLOB_VIEW_FIELD))
        others = (f for f in proposal.schema.fields if not is_blob_type(f.type) or f.name in inline)
        problem = "a table needs a column that is neither a VECTOR nor a BLOB with files of its own"
        proposal.require(any(field not in vectors for field in others), problem)


COLUMN_RULES = (
    check_column_names,
    check_column_types,
    check_keys,
    check_file_formats,
    check_vector_columns,
    check_shredding,
    check_shared_maps,
)

UNAWARE_OR_DYNAMIC = -1
NESTED = (t.ArrayType, t.MultisetType, t.MapType, t.RowType)


def check_bucket_key(proposal: Proposal) -> None:
    """Check that the option names columns that are not partition keys, and are in the primary key if there is one."""
    text = proposal.given.text(BUCKET_KEY) or ""
    if not text.strip():
        return
    names = split_names(text)
    proposal.require_columns(names, "bucket key")
    schema = proposal.schema
    in_partition = [name for name in names if name in schema.partition_keys]
    proposal.require(not in_partition, f"the bucket key {', '.join(in_partition)} is a partition key")
    outside = [name for name in names if schema.primary_keys and name not in schema.primary_keys]
    proposal.require(
        not outside,
        f"the bucket key {', '.join(outside)} is not in the primary key ({', '.join(schema.primary_keys)}); rows of "
        "one key would lie in several buckets",
    )


def check_bucket_number(proposal: Proposal) -> None:
    """Check for -1, a positive number, or -2 with a primary key; a fixed number needs a key that determines buckets."""
    bucket = proposal.options.bucket
    if bucket == UNAWARE_OR_DYNAMIC:
        proposal.require(
            not proposal.given.has(BUCKET_KEY),
            f"{BUCKET_KEY} does not go with {BUCKET} = -1; remove it, or give a number of buckets",
        )
        proposal.require(
            proposal.keyed or not proposal.given.has(FULL_COMPACTION_DELTA_COMMITS),
            f"{FULL_COMPACTION_DELTA_COMMITS} does not go with {BUCKET} = -1 in a table without a primary key",
        )
        return
    postpone = proposal.keyed and bucket == POSTPONE_BUCKET
    proposal.require(bucket > 0 or postpone, f"{BUCKET} = {bucket}: the number of buckets is 1 or more, or -1")
    chosen_by = proposal.options.bucket_key or (proposal.schema.trimmed_primary_keys if proposal.keyed else ())
    proposal.require(
        bool(chosen_by), f"a table without a primary key needs the option {BUCKET_KEY} to have a number of buckets"
    )
    kinds = [proposal.schema.by_name[name].type for name in chosen_by]
    for name, kind in zip(chosen_by, kinds):
        proposal.require(not isinstance(kind, NESTED), f"the bucket key {name!r} has the nested type {kind}")
    if proposal.options.bucket_function == "mod":
        proposal.require(
            len(kinds) == 1 and isinstance(kinds[0], (t.IntType, t.BigIntType)),
            f"{BUCKET_FUNCTION_TYPE} = mod takes one INT or BIGINT column, not ({', '.join(chosen_by)})",
        )


BUCKET_RULES = (check_bucket_key, check_bucket_number)


def check_start(proposal: Proposal) -> None:
    """Check that options for the start of a read do not contradict each other."""
    given = proposal.given
    proposal.require(
        not given.has(scans.SCAN_VERSION), f"{scans.SCAN_VERSION} is for one read; a table takes {SNAPSHOT} or {TAG}"
    )
    mode = given.get(scans.SCAN_MODE)
    if mode == scans.SCAN_MODE.default:
        mode = next((implied for options, implied in IMPLIED if any(map(given.has, options))), "latest-full")
    rule = START_MODES.get(mode, Start(none_of=EVERY_START))
    starts = [option for option in rule.one_of if given.has(option)]
    proposal.require(
        not rule.one_of or len(starts) == 1,
        f"{scans.SCAN_MODE} {mode} goes with exactly one of {_join_keys(rule.one_of)}; set are "
        f"{_join_keys(starts) or 'none'}",
    )
    beside = [option for option in rule.none_of if given.has(option)]
    proposal.require(not beside, f"{scans.SCAN_MODE} {mode} does not go with {_join_keys(beside)}")


def _join_keys(options: Sequence[AnyOption]) -> str:
    return ", ".join(option.key for option in options)


def check_retention(proposal: Proposal) -> None:
    """Check that at least one snapshot and one changelog are kept, and no minimum exceeds its maximum."""
    parsed = parse_expire_options(proposal.given.raw, where=proposal.where)
    for what, kept in (("snapshot", parsed.snapshots), ("changelog", parsed.changelogs)):
        proposal.require(kept.least > 0, f"'{what}.num-retained.min' = {kept.least} must be 1 or more")
        proposal.require(
            kept.least <= kept.most,
            f"'{what}.num-retained.min' = {kept.least} is more than '{what}.num-retained.max' = {kept.most}",
        )


def check_streams(proposal: Proposal) -> None:
    """Check that streams of overwrites have a primary key, and a changelog without the overwrites."""
    overwrites = scans.STREAMING_READ_OVERWRITE
    if proposal.given.get(overwrites):
        producer = proposal.options.changelog_producer
        proposal.require(
            producer not in ("full-compaction", "lookup"),
            f"{overwrites} does not go with {CHANGELOG_PRODUCER} = {producer}: changes would be read twice",
        )
        proposal.require(
            proposal.keyed,
            f"{overwrites} needs a primary key; set {scans.STREAMING_READ_APPEND_OVERWRITE} instead",
        )


def check_partition_expiration(proposal: Proposal) -> None:
    """Check that only tables with partitions expire them."""
    proposal.require(
        not proposal.given.has(PARTITION_EXPIRATION_TIME) or bool(proposal.schema.partition_keys),
        f"{PARTITION_EXPIRATION_TIME} needs partition keys",
    )


HISTORY_RULES = (check_start, check_retention, check_streams, check_partition_expiration)

KIND_TYPES = (t.CharType, t.VarCharType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
GONE_FUNCTION = "count"
"""Paimon 0.7 and 0.8 had this function; later versions do not open such tables."""


def check_field_options(proposal: Proposal) -> None:
    """Check that ``fields.<columns>.*`` names columns."""
    check_new_field_names(proposal.schema, proposal.given.raw, proposal.where)


def check_sequence_field(proposal: Proposal) -> None:
    """Check for distinct columns without functions of their own, and keys that cannot move between partitions."""
    names = proposal.given.get(SEQUENCE_FIELD)
    text = proposal.given.raw.get(SEQUENCE_FIELD.key, "").rstrip(",")
    proposal.require(not text or all(map(str.strip, text.split(","))), f"{SEQUENCE_FIELD} has an empty name: {text!r}")
    proposal.require_columns(names, "sequence field")
    for name in names:
        proposal.require(names.count(name) == 1, f"{SEQUENCE_FIELD} names {name!r} twice")
        function = AGGREGATE_FUNCTION.of(name)
        proposal.require(
            not proposal.given.has(function),
            f"the sequence field {name!r} takes no aggregate function: remove {function}",
        )
    if names:
        proposal.require(
            not proposal.schema.cross_partition,
            f"{SEQUENCE_FIELD} does not go with keys that may move between partitions; add the partition keys "
            f"{', '.join(proposal.schema.partition_keys)} to the primary key",
        )


def check_merge_engine(proposal: Proposal) -> None:
    """Check the engine's own rules; no engine accepts a function that Paimon has removed."""
    for key, value in proposal.given.raw.items():
        is_function = key.startswith(FIELDS) and key.endswith(AGGREGATE_FUNCTION.suffix)
        if proposal.keyed and is_function and value == GONE_FUNCTION:
            raise Unsupported(
                f"the aggregate function {value!r} of {key!r}", where=proposal.where, hint="Paimon has removed it"
            )
    check_merge(proposal.schema, proposal.options, where=proposal.where)


def check_changelog(proposal: Proposal) -> None:
    """Check that only tables with a primary key produce changelogs."""
    producer = proposal.options.changelog_producer
    proposal.require(
        proposal.keyed or producer == "none",
        f"Can not set {CHANGELOG_PRODUCER.key} on table without primary keys; define a primary key, or leave it out",
    )


def check_deletion_vectors(proposal: Proposal) -> None:
    """Refuse full-compaction changelogs with deletion vectors, and commits that do not wait for lookups.

    Paimon's documentation requires waiting, though its validation does not: such a commit would be invisible.
    """
    if not proposal.options.deletion_vectors:
        return
    proposal.require(
        not proposal.keyed or proposal.given.get(LOOKUP_WAIT),
        f"{DELETION_VECTORS_ENABLED} does not go with {LOOKUP_WAIT} = false: rows are read once they were compacted, "
        "so a commit has to wait for that",
    )
    proposal.require(
        proposal.options.changelog_producer is not ChangelogProducer.FULL_COMPACTION,
        f"{DELETION_VECTORS_ENABLED} does not go with {CHANGELOG_PRODUCER} = full-compaction; use none, input or "
        "lookup",
    )


def check_chain_table(proposal: Proposal) -> None:
    """Check that a chain table has keys, partitions whose values are times, an order of rows, and fixed buckets."""
    options, given = proposal.options, proposal.given
    if not options.is_chain_table:
        return
    keys, partitions = given.get(CHAIN_TABLE_CHAIN_PARTITION_KEYS), proposal.schema.partition_keys
    for holds, needed in (
        (proposal.keyed, "a primary key"),
        (bool(partitions), "partition keys"),
        (options.bucket > 0, f"{BUCKET} above 0"),
        (bool(options.sequence_fields), f"{SEQUENCE_FIELD}"),
        (options.changelog_producer in ("none", "input"), f"{CHANGELOG_PRODUCER} = none or input"),
        (given.get(PARTITION_TIMESTAMP_PATTERN) is not None, f"{PARTITION_TIMESTAMP_PATTERN}"),
        (given.get(PARTITION_TIMESTAMP_FORMATTER) is not None, f"{PARTITION_TIMESTAMP_FORMATTER}"),
        (not options.deletion_vectors, f"{DELETION_VECTORS_ENABLED} = false"),
        (keys == partitions[len(partitions) - len(keys) :], f"the last partition keys as {keys}"),
    ):
        proposal.require(holds, f"{CHAIN_TABLE_ENABLED} needs {needed}")


def check_snapshot_ordering(proposal: Proposal) -> None:
    """Check that tables ordered by snapshot have a key and no other order, and that only compactions merge files."""
    if not proposal.options.orders_by_snapshot:
        return
    proposal.require(proposal.keyed, f"{SEQUENCE_SNAPSHOT_ORDERING} needs a table with a primary key")
    proposal.require(
        not proposal.options.sequence_fields, f"{SEQUENCE_SNAPSHOT_ORDERING} does not go with {SEQUENCE_FIELD}"
    )
    proposal.require(
        proposal.given.get(WRITE_ONLY),
        f"{SEQUENCE_SNAPSHOT_ORDERING} needs {WRITE_ONLY} = true: rows have no snapshot yet when a writer compacts",
    )


def check_row_kind(proposal: Proposal) -> None:
    """Check that ``rowkind.field`` names a text column, or a column of row-kind codes."""
    name = proposal.given.get(ROWKIND_FIELD)
    if name is not None:
        proposal.require_columns([name], "rowkind field")
        kind = proposal.schema.by_name[name].type
        proposal.require(
            isinstance(kind, KIND_TYPES), f"{ROWKIND_FIELD} {name!r} is {kind}, neither a STRING nor a number"
        )


def check_key_indexes(proposal: Proposal) -> None:
    """Check that the columns of indexes, which Paimon builds, are columns of the table."""
    scalar = (PK_BTREE_INDEX_COLUMNS, PK_BITMAP_INDEX_COLUMNS, PK_MULTIVALUE_INDEX_COLUMNS)
    for option in (*scalar, PK_VECTOR_INDEX_COLUMNS):
        proposal.require_columns(proposal.given.get(option), f"column of {option}")


MERGE_RULES = (
    check_field_options,
    check_sequence_field,
    check_merge_engine,
    check_changelog,
    check_deletion_vectors,
    check_chain_table,
    check_snapshot_ordering,
    check_row_kind,
    check_key_indexes,
)

RULES: tuple[Callable[[Proposal], None], ...] = (
    *COLUMN_RULES,
    *BUCKET_RULES,
    *HISTORY_RULES,
    *MERGE_RULES,
    *FEATURE_RULES,
)


def validate_schema(
    schema: TableSchema,
    *,
    where: str,
    options_set: Iterable[str] | None = None,
    before: TableSchema | None = None,
) -> None:
    """Check a schema before it is stored.

    Args:
        where: the table, for errors.
        before: the schema that it changes; None for a new table. A change may keep what broke a rule before: other
            writers have other rules.
        options_set: the options being set now; None for all of them. Options that another writer has stored are not
            refused again.

    Raises `InvalidArgument`, `Unsupported`: for the first rule that the schema breaks.
    """
    given = tuple(schema.options if options_set is None else options_set)
    check_new_options(schema.options, given, where)
    if Options(schema.options).has(PARTITION_EXPIRATION_TIME) and any(key.startswith("partition.") for key in given):
        parse_partition_expiry(schema.options, where=where)
    proposal = Proposal.of(schema, where)
    for rule in RULES:
        _check(rule, proposal, before)
    check_cases(schema, where, before)
    check_indexes(schema, where, before)
    check_iceberg_change(schema, where, before)


def _check(rule: Callable[[Proposal], None], proposal: Proposal, before: TableSchema | None) -> None:
    """Raise for a broken rule, unless the schema before broke the rule in the same way."""
    try:
        rule(proposal)
    except MorrowError as error:
        if before is None or _find_problem(rule, Proposal.of(before, proposal.where)) != _strip_hint(error):
            raise


def _find_problem(rule: Callable[[Proposal], None], proposal: Proposal) -> str | None:
    try:
        rule(proposal)
    except MorrowError as error:
        return _strip_hint(error)
    return None


def _strip_hint(error: MorrowError) -> str:
    return str(error).partition("; ")[0]
