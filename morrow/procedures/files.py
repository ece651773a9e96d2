"""Procedures for files: compaction, buckets, indexes, orphan files, manifests, copies and migration of tables."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from morrow.engine.catalog.protocol import Function
from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.format.types import DataField, from_json_field
from morrow.engine.options.declared import maintenance
from morrow.engine.options.retention import parse_time_span
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.redaction import get_logger
from morrow.engine.structs import replace
from morrow.procedures.procedure import (
    DONE,
    RESULT,
    Call,
    Catalog,
    Kind,
    NamedTable,
    Parameter,
    Procedure,
    Rows,
    make_required,
    parse_buckets,
    parse_options,
    parse_pairs,
    parse_partitions,
    translate_condition,
)
from morrow.scans.arguments import parse_time
from morrow.writers.append.sort_compaction import ORDER
from morrow.writers.commit.committer import compact_manifests
from morrow.writers.history.hints import repair_earliest_snapshot
from morrow.writers.operations.compaction import (
    ChosenBuckets,
    check_buckets,
    compact_chain,
    compact_partitions,
    materialize_vectors,
    reassign_row_ids,
    retry_compaction,
)
from morrow.writers.operations.compaction import find_partitions as chosen_by
from morrow.writers.target import WriteTarget, override_options

NO_ORDER = "none"
FULL, MINOR = "full", "minor"
DISTRIBUTED: Mapping[str, bool] = {"distributed": True, "local": False}
"""The modes of ``remove_orphan_files``; by default the size of the table decides."""
PURGED = "Success"


@dataclass(frozen=True)
class Compaction:
    """The validated arguments of ``compact``."""

    full: bool
    partitions: Sequence[Mapping[str, object]]
    where: str | None
    order_by: list[str] | None
    strategy: str | None
    idle: dt.timedelta | None
    options: Mapping[str, str]
    buckets: Sequence[range] | None


def parse_compaction(
    partitions: str | None,
    compact_strategy: str | None,
    order_strategy: str | None,
    order_by: str | None,
    where: str | None,
    options: str | None,
    partition_idle_time: str | None,
    buckets: str | None,
) -> Compaction:
    """Parse the arguments of ``compact``. Raises `InvalidArgument`."""
    how = (compact_strategy or FULL).strip().lower()
    if how not in (FULL, MINOR):
        raise InvalidArgument(f"compact: compact_strategy is 'full' or 'minor', not {compact_strategy!r}")
    if partitions is not None and where is not None:
        raise InvalidArgument("compact: partitions and where cannot be used together; give one of them")
    order = (order_strategy or NO_ORDER).strip().lower()
    columns = [column.strip() for column in (order_by or "").split(",") if column.strip()]
    if (order == NO_ORDER) == bool(columns):
        raise InvalidArgument("compact: order_by and an order_strategy other than 'none' go together")
    if columns and (partition_idle_time is not None or buckets is not None):
        other = "partition_idle_time" if partition_idle_time is not None else "buckets"
        raise InvalidArgument(f"compact: order_by sorts whole partitions; sort compact do not support '{other}'")
    return Compaction(
        full=how == FULL,
        partitions=parse_partitions(partitions),
        where=translate_condition(where),
        order_by=columns or None,
        strategy=order if columns else None,
        idle=None if partition_idle_time is None else parse_time_span(partition_idle_time),
        options=parse_pairs(options, "options"),
        buckets=None if buckets is None else parse_buckets(buckets),
    )


def _compact(call: Call, **arguments: str | None) -> Rows:
    how = parse_compaction(**arguments)
    target = override_options(WriteTarget.of(call.metadata), how.options)
    check_buckets(target, how.buckets)

    def once() -> Snapshot | None:
        snapshot = target.metadata.latest_snapshot()
        return compact_partitions(
            target,
            snapshot,
            chosen_by(target, snapshot, ChosenBuckets(how.partitions, how.where, how.idle, how.buckets)),
            full=how.full,
            order_by=how.order_by,
            strategy=how.strategy or ORDER,
            buckets=how.buckets,
        )

    retry_compaction(target, once)
    return DONE


def _compact_chain_table(call: Call, partition: str, overwrite: bool | None) -> Rows:
    found = parse_partitions(partition)
    if len(found) != 1:
        raise InvalidArgument(f"compact_chain_table: name one partition, such as 'dt=20250810', not {partition!r}")
    return [(compact_chain(call.metadata, found[0], overwrite=bool(overwrite)),)]


def _reassign_row_id(call: Call, partitions: str | None) -> Rows:
    target = WriteTarget.of(call.metadata)
    done = reassign_row_ids(target, parse_partitions(partitions) or None)
    if done is None:
        return [("Skipped. The row ids of each partition are consecutive.",)]
    snapshot, found = done
    return [
        (
            f"Success. Reassigned row ids: snapshot {snapshot.id - 1} -> {snapshot.id}, nextRowId "
            f"{found.next_row_id - found.rows} -> {found.next_row_id}, files={found.files}, rows={found.rows}, "
            f"indexFiles={found.moved}.",
        )
    ]


def parse_distribution(mode: str | None) -> bool | None:
    """Return whether the mode of ``remove_orphan_files`` asks for Spark jobs; None if it is not given."""
    word = None if mode is None else mode.strip().lower()
    if word is not None and word not in DISTRIBUTED:
        raise InvalidArgument(f"remove_orphan_files: mode is 'distributed' or 'local', not {mode!r}")
    return None if word is None else DISTRIBUTED[word]


def _remove_orphan_files(
    call: Call, older_than: str | None, dry_run: bool | None, parallelism: int | None, mode: str | None
) -> Rows:
    del parallelism  # Python lists folders in threads of its own number
    if parse_distribution(mode):
        raise Unsupported("remove_orphan_files in jobs, without Spark", hint="leave out mode")
    before = None if older_than is None else parse_time(older_than, "older_than")
    found = [table.remove_orphan_files(before, bool(dry_run)) for table in call.tables]
    return [(sum(one.count for one in found), sum(one.bytes for one in found))]


def _purge_files(call: Call) -> Rows:
    call.table.purge()
    return [(PURGED,)]


def _erase(call: Call, where: str, history: bool | None, dry_run: bool | None, older_than: str | None) -> Rows:
    age = None if older_than is None else parse_time(older_than, "older_than")
    condition = translate_condition(where)
    assert condition is not None  # the argument is required
    done = call.table.erase(condition, history=bool(history), dry_run=bool(dry_run), older_than=age)
    return done.to_polars().rows()


_PAIRS = r"[^=]+=.*"
_UNQUOTED_SPEC = r"\w+\s*=\s*[^'\"=<>();,]+([;,]\s*\w+\s*=\s*[^'\"=<>();,]+)*"
"""A partition as ``dt=2024-01-01,hh=2;dt=...``: as a condition, it would compare other values."""
_STRATEGIES = f"{NO_ORDER}|order|zorder|hilbert"
_COMPACT = (
    *(Parameter("partitions", pattern=_PAIRS), Parameter("compact_strategy", pattern=f"{FULL}|{MINOR}")),
    *(Parameter("order_strategy", pattern=_STRATEGIES), Parameter("order_by", pattern="[^=]+"), Parameter("where")),
    *(Parameter("options", pattern=_PAIRS), Parameter("partition_idle_time", pattern=r"\d+\s*\w*")),
    Parameter("buckets"),
)
_COMPACT_OF_FLINK = (
    *("partitions", "order_strategy", "order_by", "options", "where", "partition_idle_time", "compact_strategy"),
    "buckets",
)
_ORPHANS = (
    *(Parameter("older_than"), Parameter("dry_run", Kind.BOOLEAN), Parameter("parallelism", Kind.INT)),
    Parameter("mode"),
)
_ORPHAN_COLUMNS = "deletedFileCount BIGINT, deletedFileTotalLenInBytes BIGINT"

COMPACT = Procedure(
    *("compact", _COMPACT, RESULT, _compact), jobs=True, flink=(_COMPACT_OF_FLINK, ("order_strategy", "order_by"))
)
REMOVE_ORPHAN_FILES = Procedure("remove_orphan_files", _ORPHANS, _ORPHAN_COLUMNS, _remove_orphan_files, jobs=True)

_ERASE = (
    *(make_required("where"), Parameter("history", Kind.BOOLEAN), Parameter("dry_run", Kind.BOOLEAN)),
    Parameter("older_than"),
)
_HOLDERS = (
    "state STRING NOT NULL, holder STRING NOT NULL, branch STRING NOT NULL, name STRING NOT NULL, files BIGINT, "
    "stored_rows BIGINT, bounds BIGINT, reason STRING"
)

_CHAIN = make_required("partition"), Parameter("overwrite", Kind.BOOLEAN)

FILE_PROCEDURES = (
    *(COMPACT, REMOVE_ORPHAN_FILES, Procedure("purge_files", (), "result STRING", _purge_files)),
    Procedure("erase", _ERASE, _HOLDERS, _erase),
    Procedure("compact_chain_table", _CHAIN, RESULT, _compact_chain_table),
    Procedure("reassign_row_id", (Parameter("partitions", pattern=_PAIRS),), "result STRING", _reassign_row_id),
)


def _rescale(call: Call, bucket_num: int | None, partitions: str | None, where: str | None) -> Rows:
    if partitions is not None and where is not None:
        raise InvalidArgument("rescale: partitions and where cannot be used together; give one of them")
    partition = None if partitions is None else parse_partitions(partitions)
    call.table.rescale(bucket_num, partition=partition, where=translate_condition(where))
    return DONE


def _materialize_vectors(call: Call, partitions: str | None, where: str | None, options: str | None) -> Rows:
    if partitions is not None and where is not None:
        raise InvalidArgument("materialize_deletion_vectors: partitions and where cannot be used together")
    target = override_options(WriteTarget.of(call.metadata), parse_pairs(options, "options"))
    for partition in [None] if partitions is None else parse_partitions(partitions):
        materialize_vectors(target, partition, translate_condition(where))
    return DONE


def _rewrite_file_index(call: Call, where: str | None, partitions: str | None) -> Rows:
    if partitions is not None and where is not None:
        raise InvalidArgument("rewrite_file_index: partitions and where cannot be used together")
    partition = None if partitions is None else parse_partitions(partitions)
    done = call.table.rewrite_file_index(partition=partition, where=translate_condition(where))
    return [(done.partitions, done.files)]


def _create_global_index(
    call: Call, index_column: str, index_type: str, partitions: str | None, options: str | None
) -> Rows:
    partition = None if partitions is None else parse_partitions(partitions)
    given = parse_pairs(options, "options")
    call.table.create_global_index(index_column, index_type, partition=partition, options=given)
    return DONE


def _drop_global_index(
    call: Call, index_column: str, index_type: str, partitions: str | None, dry_run: bool | None
) -> Rows:
    partition = None if partitions is None else parse_partitions(partitions)
    done = call.table.drop_global_index(index_column, index_type, partition=partition, dry_run=bool(dry_run))
    return [(True, done.files)]


def _mark_partition_done(call: Call, partitions: str) -> Rows:
    call.table.mark_partition_done(*parse_partitions(partitions))
    return DONE


_RESCALE = (
    *(Parameter("bucket_num", Kind.INT), Parameter("partitions", pattern=_PAIRS, others=("partition",))),
    Parameter("where"),
)
_RESCALE_OF_FLINK = ("bucket_num", "partitions", "scan_parallelism", "sink_parallelism")
_REWRITE = (Parameter("where", pattern=f"(?!{_UNQUOTED_SPEC}$).*"), Parameter("partitions", pattern=_UNQUOTED_SPEC))
_PARTITIONS = (Parameter("partitions", pattern=_PAIRS, others=("partition",)), Parameter("where"))
_INDEX = (make_required("index_column"), make_required("index_type"), Parameter("partitions"))
_WRITTEN = "written_partitions INT NOT NULL, written_indexes INT NOT NULL"

LAYOUT_PROCEDURES = (
    Procedure("rescale", _RESCALE, RESULT, _rescale, flink=(_RESCALE_OF_FLINK,)),
    Procedure(
        "materialize_deletion_vectors",
        (_PARTITIONS[0], Parameter("options", pattern=_PAIRS), *_PARTITIONS[1:]),
        RESULT,
        _materialize_vectors,
    ),
    Procedure("rewrite_file_index", _REWRITE, _WRITTEN, _rewrite_file_index, flink=(("partitions",),)),
    Procedure("create_global_index", (*_INDEX, Parameter("options")), RESULT, _create_global_index),
    Procedure(
        "drop_global_index",
        (*_INDEX, Parameter("dry_run", Kind.BOOLEAN)),
        f"{RESULT}, dropped_file_count BIGINT",
        _drop_global_index,
    ),
    Procedure("mark_partition_done", (make_required("partitions"),), RESULT, _mark_partition_done),
)

MANIFEST_OPTIONS = (
    maintenance.MANIFEST_TARGET_FILE_SIZE,
    maintenance.MANIFEST_COMPRESSION,
    maintenance.COMMIT_MAX_RETRIES,
    maintenance.COMMIT_TIMEOUT,
    maintenance.COMMIT_MIN_RETRY_WAIT,
    maintenance.COMMIT_MAX_RETRY_WAIT,
)

log = get_logger(__name__)


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
    given = parse_options(options, MANIFEST_OPTIONS, "compact_manifest")
    target = override_options(WriteTarget.of(call.metadata), dict(given.raw))
    if dry_run:
        _log_skipped(target)
    else:
        compact_manifests(target)
    return DONE


def _alter_column_default_value(call: Call, column: str, default_value: str) -> Rows:
    call.table.alter.set_default(column, default_value)
    return DONE


def _log_skipped(target: WriteTarget) -> None:
    """Log the manifests to merge, since the result of a dry run lacks a column for them."""
    latest = target.metadata.latest_snapshot()
    listed = None if latest is None else list_manifests(target.metadata, latest)
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
_DEFAULT = (make_required("column"), make_required("default_value"))
_MISSING = (Parameter("dry_run", Kind.BOOLEAN), Parameter("parallelism", Kind.INT))
_EARLIEST = "previous_earliest_snapshot_id BIGINT NOT NULL, current_earliest_snapshot_id BIGINT NOT NULL"

METADATA_PROCEDURES = (
    Procedure("compact_manifest", _MANIFESTS, RESULT, _compact_manifest),
    Procedure("alter_column_default_value", _DEFAULT, RESULT, _alter_column_default_value),
    Procedure("remove_unexisting_files", _MISSING, "fileName STRING NOT NULL", _remove_unexisting_files),
    Procedure(
        "repair_earliest_snapshot", (make_required("snapshot_id", Kind.BIGINT),), _EARLIEST, _repair_earliest_snapshot
    ),
)

PARQUET = "parquet"


def build_compaction_result(done: int, failed: int) -> Rows:
    """Return the result of ``compact_database``."""
    return [(f"Compact database finished. Success: {done}, Failed: {failed}",)]


def check_mode(mode: str | None) -> None:
    """Check the mode of ``compact_database``, by which Flink makes one job or several. Raises `InvalidArgument`."""
    if mode is not None and not re.fullmatch(_MODES, mode.strip(), re.IGNORECASE):
        raise InvalidArgument(f"compact_database: mode is 'divided' or 'combined', not {mode!r}")


def _compact_database(
    call: Call,
    including_databases: str | None,
    including_tables: str | None,
    excluding_tables: str | None,
    options: str | None,
    mode: str | None,
) -> Rows:
    check_mode(mode)
    if parse_pairs(options, "options"):
        raise Unsupported("compact_database with options, without Spark", hint="CALL sys.compact takes them")
    found = call.catalog.compact(
        databases=including_databases, including=including_tables, excluding=excluding_tables, full=True
    )
    failed = [one for one in found if one.error is not None]
    for one in failed:  # as in Paimon, the other tables are still compacted
        log.warning("compact_database: %s was not compacted: %s", one.name, one.error)
    return build_compaction_result(len(found) - len(failed), len(failed))


def _copy_table(_call: Call, source_table: NamedTable, target_table: NamedTable, where: str | None) -> Rows:
    if target_table.catalog is None or target_table.branch is not None:
        raise InvalidArgument("copy: target_table is database.table in a warehouse")
    target_table.catalog.copy_table(source_table.table, target_table.name, where=translate_condition(where))
    return DONE


def _migrate_table(
    _call: Call,
    source_type: str,
    table: str,
    options: str | None,
    delete_origin: bool | None,
    target_table: NamedTable | None,
    options_map: Mapping[str, str] | None,
    parallelism: int | None,
) -> Rows:
    if source_type.strip().lower() != PARQUET:
        raise Unsupported(
            f"migrate_table from {source_type!r}",
            hint="CALL of Spark takes tables of its catalog; source_type => 'parquet' takes a folder of Parquet files",
        )
    if delete_origin is not False:
        raise Unsupported("migrate_table that deletes its origin", hint="files are copied: delete_origin => false")
    if parallelism is not None:
        raise Unsupported("migrate_table with parallelism", hint="leave it out")
    if target_table is None or target_table.catalog is None or target_table.branch is not None:
        raise InvalidArgument("migrate_table: target_table is database.table in a warehouse")
    given = {**parse_pairs(options, "options"), **(options_map or {})}
    target_table.catalog.clone_parquet(table, target_table.name, options=given)
    return DONE


def _refuse_without_spark(_call: Call, **_arguments: object) -> Rows:
    raise Unsupported("migrating tables without Spark", hint="CALL it in Spark, or use Catalog.clone_parquet")


def _alter_view_dialect(
    _call: Call, view: NamedTable, action: str, engine: str | None = None, query: str | None = None
) -> Rows:
    """Add, update or drop the query of a view for an engine, by default Spark."""
    catalog = _require_catalog(view, "alter_view_dialect")
    found, dialect, verb = catalog.view(view.name), engine or "spark", action.strip().lower()
    there = dialect in found.dialects
    if verb not in ("add", "update", "drop"):
        raise InvalidArgument(f"alter_view_dialect: the action {action!r} is none of add, update, drop")
    if there is (verb == "add"):
        state = "has a query already" if there else "has no query"
        raise InvalidArgument(
            f"alter_view_dialect: {view.name} {state} for {dialect}; its dialects are {[*found.dialects]}"
        )
    if (query is None) is not (verb == "drop"):
        raise InvalidArgument(f"alter_view_dialect: {verb} takes {'no' if verb == 'drop' else 'a'} query")
    left = {name: text for name, text in found.dialects.items() if name != dialect}
    dialects = left if query is None else {**left, dialect: query}
    catalog.replace_view(view.name, replace(found, dialects=dialects))
    return DONE


def _create_function(
    _call: Call,
    function: NamedTable,
    input_params: str,
    return_params: str,
    deterministic: bool | None = None,
    comment: str | None = None,
    options: str | None = None,
) -> Rows:
    """Create a function without definitions; `alter_function` adds them."""
    made = Function(
        _parse_parameters(input_params, "inputParams"),
        _parse_parameters(return_params, "returnParams"),
        deterministic=deterministic is not False,
        comment=comment,
        options=parse_pairs(options, "options"),
    )
    _require_catalog(function, "create_function").create_function(function.name, made)
    return DONE


def _parse_parameters(text: str, argument: str) -> tuple[DataField, ...]:
    """Parse a JSON list of columns. Raises `InvalidArgument`, and `Unsupported` for a type."""
    try:
        return tuple(from_json_field(node, where=argument) for node in json.loads(text))
    except (ValueError, TypeError, KeyError) as error:
        hint = '[{"id": 0, "name": "x", "type": "INT"}]'
        raise InvalidArgument(f"{argument}: {text!r} is not a list of columns such as {hint} ({error!r})") from error


def _alter_function(_call: Call, function: NamedTable, change: str) -> Rows:
    """Apply one change, given as the JSON of a FunctionChange."""
    try:
        told = json.loads(change)
        action = told["action"]
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidArgument(f"change: {change!r} is not JSON with an action ({error!r})") from error
    if action not in FUNCTION_ACTIONS:
        raise InvalidArgument(f"change: the action {action!r} is none of {', '.join(FUNCTION_ACTIONS)}")
    if missing := [member for member in FUNCTION_ACTIONS[action] if member not in told]:
        raise InvalidArgument(f"change: {action} lacks the member {missing[0]!r}")
    _require_catalog(function, "alter_function").alter_function(function.name, told)
    return DONE


FUNCTION_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "addDefinition": ("name", "definition"),
    "updateDefinition": ("name", "definition"),
    "dropDefinition": ("name",),
    "setOption": ("key", "value"),
    "removeOption": ("key",),
    "updateComment": ("comment",),
}
"""The actions of a change to a function, and their members."""


def _drop_function(_call: Call, function: NamedTable) -> Rows:
    _require_catalog(function, "drop_function").drop_function(function.name)
    return DONE


def _require_catalog(named: NamedTable, procedure: str) -> Catalog:
    """Return the catalog of a name. Raises `InvalidArgument` for a folder."""
    if named.catalog is None:
        raise InvalidArgument(f"{procedure}: the name is database.name in a catalog, not {named.name!r}")
    return named.catalog


_MODES = "divided|combined"
_DATABASES = (
    *(Parameter("including_databases"), Parameter("including_tables", pattern=f"(?!({_MODES})$).*")),
    *(Parameter("excluding_tables"), Parameter("options", pattern=_PAIRS, others=("table_options",))),
    Parameter("mode", pattern=_MODES),
)
_DATABASES_OF_FLINK = (
    *("including_databases", "mode", "including_tables", "excluding_tables", "options", "partition_idle_time"),
    "compact_strategy",
)
_COPY = (make_required("source_table", Kind.TABLE), make_required("target_table", Kind.TABLE), Parameter("where"))
_VIEW_DIALECT = (
    *(make_required("view", Kind.TABLE), make_required("action")),
    *(Parameter("engine"), Parameter("query")),
)
_FUNCTION = make_required("function", Kind.TABLE)
_NEW_FUNCTION = (
    *(_FUNCTION, make_required("inputParams"), make_required("returnParams")),
    *(Parameter("deterministic", Kind.BOOLEAN), Parameter("comment"), Parameter("options")),
)
_MIGRATE = (
    *(
        make_required("source_type", others=("connector",)),
        make_required("table", others=("source_table",)),
        Parameter("options"),
        Parameter("delete_origin", Kind.BOOLEAN),
    ),
    *(Parameter("target_table", Kind.TABLE), Parameter("options_map", Kind.MAP), Parameter("parallelism", Kind.INT)),
)

_MIGRATE_FILE = (
    *(make_required("source_type"), make_required("source_table"), make_required("target_table", Kind.TABLE)),
    *(Parameter("delete_origin", Kind.BOOLEAN), Parameter("parallelism", Kind.INT)),
)
_MIGRATE_DATABASE = (
    *(make_required("source_type"), make_required("database"), Parameter("options")),
    *(Parameter("options_map", Kind.MAP), Parameter("parallelism", Kind.INT)),
)
MIGRATE_TABLE = Procedure("migrate_table", _MIGRATE, RESULT, _migrate_table, of_table=False)
MIGRATE_FILE = Procedure("migrate_file", _MIGRATE_FILE, RESULT, _refuse_without_spark, of_table=False)
MIGRATE_DATABASE = Procedure(
    "migrate_database", _MIGRATE_DATABASE, "result STRING", _refuse_without_spark, of_table=False
)

COMPACT_DATABASE = Procedure(
    *("compact_database", _DATABASES, "result STRING", _compact_database),
    jobs=True,
    of_table=False,
    flink=(_DATABASES_OF_FLINK,),
)
TABLE_PROCEDURES = (
    COMPACT_DATABASE,
    Procedure("alter_view_dialect", _VIEW_DIALECT, RESULT, _alter_view_dialect, of_table=False),
    Procedure("create_function", _NEW_FUNCTION, RESULT, _create_function, of_table=False),
    Procedure("alter_function", (_FUNCTION, make_required("change")), RESULT, _alter_function, of_table=False),
    Procedure("drop_function", (_FUNCTION,), RESULT, _drop_function, of_table=False),
    Procedure("copy", _COPY, RESULT, _copy_table, of_table=False),
    MIGRATE_TABLE,
    MIGRATE_FILE,
    MIGRATE_DATABASE,
)
