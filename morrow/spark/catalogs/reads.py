"""Tables loaded and read: time travel, branches, system tables, changes, aggregates from metadata.

Options and settings choose the snapshot of a system table, or the two snapshots that it compares. Metadata
answers some aggregates without reading rows, and gives estimates to the planner. Tasks read changes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

from morrow.engine.catalog.names import BRANCH_PREFIX, MARK, SYSTEM_DATABASE
from morrow.engine.catalog.protocol import has_format_tables
from morrow.engine.errors import ColumnNotFound, InvalidArgument, TableNotFound, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.options.declared.connectors import READ_ALLOW_FULL_SCAN
from morrow.engine.options.declared.table import BRANCH
from morrow.engine.plan.file_statistics import count_fixed_buckets, estimate_read
from morrow.engine.plan.filter import NO_FILTER, Filter
from morrow.engine.plan.incremental import ROWKIND_FIELD
from morrow.engine.plan.metadata import METADATA_CACHE
from morrow.engine.plan.planner import estimate_plan_bytes
from morrow.engine.plan.predicate import combine_predicates, find_columns
from morrow.engine.plan.scan_plan import ScanPlan
from morrow.engine.structs import replace
from morrow.queries.incremental import has_change_options, parse_change_options
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.execution.statistics import ORDERED, Summary, Summing, list_result_fields, summarize
from morrow.readers.system.audit_log import RowTable
from morrow.readers.system.registry import find_system_table
from morrow.scans.changes import Changes
from morrow.scans.table_scan import Scan, plan_with_outlines
from morrow.spark import dataframes
from morrow.spark.catalogs import descriptions
from morrow.spark.catalogs.options import Chosen, make_refusal, parse_travel, set_read_options
from morrow.spark.catalogs.questions import Place, Question, TableOpener, build_full_name, parse_name
from morrow.spark.catalogs.streams import is_streamable
from morrow.spark.catalogs.view_statements import load_view
from morrow.spark.expressions import parse_predicates, quote_name
from morrow.spark.format_tables import to_dataframe as folder_rows
from morrow.spark.job.execution import run_tasks
from morrow.spark.job.tasks import Work
from morrow.spark.job.wire import StoreAccess
from morrow.spark.reading import distributed
from morrow.spark.reading.choice import choose_readers
from morrow.spark.reading.manifests import ManifestTasks
from morrow.spark.reading.read import to_dataframe
from morrow.spark.source.partitions import ChangesJob, divide_changes, encode_changes
from morrow.spark.source.settings import PREFIX, get_clock
from morrow.spark.types import drop_not_null, make_empty_frame, to_spark_schema
from morrow.tables.format_table import FormatTable, ObjectTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from morrow.engine.plan.scan_plan import Section
    from morrow.engine.plan.time_travel import TravelArguments
    from morrow.scans.system_tables import SystemScan
    from morrow.tables.table import Table

MICROS_OF_MILLI = 1000
CHANGES = "changes"
"""The key of a state that consists of the changes between two others: the arguments of `Table.changes`, or None."""
FOLDER = "folder"
"""The key of the state of a folder of files: the files that exist when it is read."""


def load_table(place: Place, question: Question, _rows: DataFrame | None = None) -> dict[str, object]:
    """Describe a table at its newest snapshot, or at the one that ``version`` or ``micros`` name."""
    name = build_full_name(question["namespace"], question["name"])
    at = _find_travel(question)
    settings: Mapping[str, str] = question.get("settings", {})
    if is_system(name):
        return load_system(place, name, at, settings)
    try:
        table = place.table(name)
    except TableNotFound:
        view = None if at else load_view(place, name)
        if view is None:
            raise
        return view
    except Unsupported:
        folder = None if at else find_folder(place, name)
        if folder is None:
            raise
        if isinstance(folder, FormatTable):
            return descriptions.describe_folder(name, folder, {FOLDER: True})
        return descriptions.describe_rows(name, folder.fields, {FOLDER: True}, streams=False)
    chosen = Chosen.of(settings, place.name, *name.split(".", 1))
    chosen = chosen.of_table_reads if at else chosen
    if chosen.are_of_changes:
        return describe_changes(table, name, chosen)
    scan = set_read_options(table, chosen.options).scan(**(at or chosen.travel()))
    return descriptions.describe_table(table, scan, name, writable=not at, set=chosen.by)


def describe_changes(table: Table, name: str, chosen: Chosen) -> dict[str, object]:
    """Describe the changes of a table that settings choose. Writes to the table work as usual."""
    found = descriptions.describe_table(table, table.scan(), name, writable=True, set=chosen.by)
    state = {CHANGES: parse_change_options(table, chosen.options), descriptions.SET: list(chosen.by)}
    return {**found, "state": state, "version": str((found["version"], dict(chosen.options)))}


def _choose_state(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object]:
    """Return the state that the options of a read choose, and the text that identifies this state.

    Raises `Unsupported`: its columns differ from the table's. Others: as `parse_travel` and `parse_change_options`.
    """
    from pyspark.sql.types import StructType

    name, options = question["table"], dict(question["options"])
    branch = next((options.pop(key) for key in list(options) if key.lower() == BRANCH.key), None)
    if branch is not None:
        name = name_branch(name, branch)
    wanted = has_change_options(options)
    state: dict[str, object] | str
    if is_system(name):
        state = parse_system_state(place, name, options)
        fields = scan_system(place, name, state).fields
    elif wanted:
        table = place.table(name)
        fields, state = table.scan().fields, {CHANGES: parse_change_options(table, options)}
    else:
        table = place.table(name)
        scan = set_read_options(table, options).scan(**parse_travel(options, clock=get_clock(place.spark)))
        fields, state = scan.fields, descriptions.pack_state(table.path, scan.request)
    if descriptions.to_catalog_schema(fields) != StructType.fromJson(json.loads(question["columns"])):
        hint = "write VERSION AS OF or TIMESTAMP AS OF" if branch is None else f"read the table {name} by its name"
        raise Unsupported(
            f"the option {next(iter(question['options']))!r}, which chooses a state of {name} with other columns,",
            hint=hint,
        )
    return {"table": name, "state": state, "version": str((question["state"], options, branch))}


def name_branch(name: str, branch: str) -> str:
    """Return the full name of a branch of a table or of its system table. Raises `InvalidArgument` for a branch."""
    parts = parse_name(name)
    if parts.branch is not None and parts.branch != branch:
        raise InvalidArgument(f"{name} is a branch already; leave the option branch={branch!r} out")
    found = parts.table if branch == MAIN_BRANCH else f"{parts.table}{MARK}{BRANCH_PREFIX}{branch}"
    return found if parts.system is None else f"{found}{MARK}{parts.system}"


def _find_travel(question: Question) -> TravelArguments:
    if "version" in question:
        return {"version": question["version"]}
    if "micros" in question:
        return {"timestamp": question["micros"] // MICROS_OF_MILLI}
    return {}


def read_rows(place: Place, question: Question, _rows: DataFrame | None = None) -> DataFrame:
    """Return the columns of a state as a DataFrame. Filters prune files; Spark applies them again."""
    columns, name = tuple(question["columns"]), question["table"]
    if isinstance(question["state"], Mapping) and CHANGES in question["state"]:
        return read_changed_rows(place, question)
    if is_of_folder(question):
        return _read_folder(place, question)
    if isinstance(question["state"], Mapping):
        scan = scan_system(place, name, question["state"])
        wanted = columns or (scan.fields[0].name,)
        return to_dataframe(scan.narrowed(wanted), place.spark).select(*map(quote_name, columns))
    return read_table(place, question)


def read_table(place: TableOpener, question: Question) -> DataFrame:
    """Return the columns of a table's state as a DataFrame, as `read_rows` does."""
    columns = tuple(question["columns"])
    scan = narrow_scan(place, question)
    _check_full_scan(place.spark, scan)
    limits = [limit for limit in (scan.request.limit, question.get("limit")) if limit is not None]
    limit = min(limits, default=None)
    plan = _get_plan(question) if limit is None else None
    if plan is None or not set(columns) <= set(scan.request.read_schema.by_name):
        chosen = scan.adapted(lambda each: replace(each, columns=columns, limit=limit))
    else:
        chosen = Scan(scan._metadata, replace(scan.request, columns=columns), plan.with_columns(columns))
    if set(columns) <= set(scan.request.read_schema.by_name):
        # Spark keeps its LIMIT above expressions that are computed in the reading task, such as input_file_name().
        return to_dataframe(chosen, place.spark, limits=scan.request.limit is not None)
    return distributed.read_hidden(chosen, columns, place.spark)


def _describe_read(question: Question) -> Hashable:
    """Return the key of a plan in `METADATA_CACHE`: the table, its state and the filters."""
    return "read by bucket", json.dumps([question["table"], question["state"], question["filters"]])


def _get_plan(question: Question) -> ScanPlan | None:
    """Return the plan of a read whose buckets were described; None without one."""
    found = METADATA_CACHE.get(_describe_read(question))
    return found if isinstance(found, ScanPlan) else None


ALLOWS_FULL_SCAN = f"{PREFIX}{READ_ALLOW_FULL_SCAN.key}"
"""The session setting that forbids reads of partitioned tables without a filter, if it is false."""


def _check_full_scan(spark: SparkSession, scan: Scan) -> None:
    """Raise `InvalidArgument` if the session forbids full scans and a scan of a partitioned table skips no file."""
    if str(spark.conf.get(ALLOWS_FULL_SCAN, "true")).lower() != "false" or not scan.request.schema.partition_keys:
        return
    every = estimate_read(scan._metadata, replace(scan.request, filter=NO_FILTER))
    if every.size and estimate_read(scan._metadata, scan.request).size == every.size:
        raise InvalidArgument(
            f"{scan.title}: Full scan is not supported. Filter by partitions, or unset {ALLOWS_FULL_SCAN}"
        )


def find_folder(place: Place, name: str) -> FormatTable | ObjectTable | None:
    """Return a format table or object table of the catalog; None for other tables."""
    if not has_format_tables(place.catalog._catalog) or "$" in name:
        return None
    for opened in (place.catalog.format_table, place.catalog.object_table):
        with suppress(InvalidArgument, Unsupported):
            return opened(name)
    return None


def is_of_folder(question: Question) -> bool:
    """Return whether a question is about a format table or object table."""
    state = question.get("state")  # missing in SHOW PARTITIONS of a session without a catalog
    return isinstance(state, Mapping) and FOLDER in state


def format_table(place: Place, question: Question) -> FormatTable:
    """Return the format table of a question. Raises `TableNotFound` if it has been dropped."""
    found = find_folder(place, question["table"])
    if not isinstance(found, FormatTable):
        raise TableNotFound(f"{question['table']} is no longer a format table; make the DataFrame again")
    return found


def _read_folder(place: Place, question: Question) -> DataFrame:
    """Return the rows of a format table with partitions pruned, or of an object table, made by the driver."""
    columns, folder = tuple(question["columns"]), find_folder(place, question["table"])
    if folder is None:
        raise TableNotFound(f"{question['table']} is no longer a table of files; make the DataFrame again")
    kept = parse_predicates(question["filters"], {field.name: field for field in folder.fields})
    wanted = columns or (folder.fields[0].name,)
    predicate = combine_predicates(*kept)
    if isinstance(folder, FormatTable):
        filter = Filter.of_predicate(predicate)
        frame = folder_rows(folder._table, wanted, filter, place.spark)
    else:
        frame = to_dataframe(folder.scan().narrowed(wanted, predicate if kept else None), place.spark)
    return frame.select(*map(quote_name, columns))


def narrow_scan(place: TableOpener, question: Question) -> Scan:
    """Return the scan of a state, narrowed by the filters as far as Morrow can test them.

    Raises `TableNotFound` if the catalog now has another warehouse.
    """
    table = place.table(question["table"])
    path, request, _ = descriptions.unpack_state(question["state"])
    if path != table.path:
        raise TableNotFound(f"{path} is no longer {question['table']}; make the DataFrame again")
    kept = parse_predicates(question["filters"], request.read_schema.by_name)
    predicate = combine_predicates(request.filter.predicate, *kept)
    filter = Filter(predicate, (), find_columns(predicate), " AND ".join(map(str, kept)))
    return Scan(table._metadata, replace(request, filter=filter))


def read_changed_rows(place: TableOpener, question: Question) -> DataFrame:
    """Return the rows that were added or updated between two states. As in Paimon, retractions are left out."""
    table, columns = place.table(question["table"]), tuple(question["columns"])
    if unknown := set(columns) - set(table.schema.names):
        raise Unsupported(f"hidden columns of changes ({', '.join(sorted(unknown))})")
    wanted = columns or table.schema.names[:1]
    asked = question["state"][CHANGES]
    found = (
        table.changes(1, 1, mode="diff", columns=wanted) if asked is None else table.changes(**asked, columns=wanted)
    )
    return read_changes(found, place.spark, with_kinds=False).select(*map(quote_name, columns))


READ_ANSWERS: dict[str, Callable[[Place, Question, DataFrame | None], object]] = {
    "load": load_table,
    "read": read_rows,
    "read options": _choose_state,
}

AT = "at"
"""The key in the state of a system table for the arguments of `Table.system` that choose one or two snapshots."""


def is_system(name: str) -> bool:
    """Return whether a full name names a system table."""
    return parse_name(name).system is not None or name.startswith(f"{SYSTEM_DATABASE}.")


def load_system(place: Place, name: str, at: Mapping[str, object], settings: Mapping[str, str]) -> dict[str, object]:
    """Describe a system table; `at` has precedence over the settings."""
    state: dict[str, object] = {AT: dict(at)}
    system = parse_name(name).system
    if not at and system is not None and has_time_travel(system):
        state = choose_system_state(
            Chosen.of(settings, place.name, *name.split(".", 1)), name, lambda: _open_table(place, name)
        )
    return descriptions.describe_rows(
        name, scan_system(place, name, state).fields, state, streams=not at and is_streamable(name)
    )


def has_time_travel(system: str) -> bool:
    """Return whether a system table supports time travel. As in Paimon, settings apply only to these system tables."""
    try:
        return find_system_table(system).travels
    except TableNotFound:
        return False  # reading the table raises the error


def choose_system_state(chosen: Chosen, name: str, opened: Callable[[], Table]) -> dict[str, object]:
    """Return the state that settings choose for a system table.

    Raises `Unsupported` if they choose changes and the table lacks row kinds.
    """
    if not chosen.are_of_changes:
        return {AT: dict(chosen.travel())} | ({descriptions.SET: list(chosen.by)} if chosen.by else {})
    system = find_system_table(str(parse_name(name).system))
    if not isinstance(system, RowTable) or not system.tells_kinds:
        raise make_refusal(f"{name}, which tells of one snapshot,", chosen.by)
    return {AT: parse_system_changes(opened(), name, chosen.options), descriptions.SET: list(chosen.by)}


def parse_system_state(place: Place, name: str, options: Mapping[str, str]) -> dict[str, object]:
    """Return the state that the options of a read choose for a system table."""
    if has_change_options(options):
        return {AT: parse_system_changes(_open_table(place, name), name, options)}
    return {AT: dict(parse_travel(options, clock=get_clock(place.spark)))}


def parse_system_changes(table: Table, name: str, options: Mapping[str, str]) -> dict[str, object]:
    """Return the two snapshots that a system table compares. Raises `Unsupported` for times."""
    found = parse_change_options(table, options)
    if found is None or "from_snapshot" not in found:
        raise Unsupported(f"changes of {name} between times, or where there are none,", hint="name two snapshots")
    return found


def scan_system(place: Place, name: str, state: Mapping[str, object]) -> SystemScan:
    """Return the scan of a system table at a state."""
    at = state[AT]
    try:
        return place.catalog.system(name, **at)  # type: ignore[arg-type]  # decoded from JSON
    except InvalidArgument as error:
        if at or isinstance(error, ColumnNotFound):
            raise
        raise TableNotFound(str(error)) from error  # unknown system table


def _open_table(place: Place, name: str) -> Table:
    parts = parse_name(name)
    return place.catalog.table(parts.table, branch=parts.branch)


def _find_partition_filters(_place: TableOpener, question: Question, _rows: DataFrame | None) -> list[bool]:
    """Return for each filter whether Morrow applies it exactly as Spark would, as for whole partitions."""
    if isinstance(question["state"], Mapping):
        return [False] * len(question["filters"])
    schema = descriptions.unpack_state(question["state"])[1].schema
    keys = {name for name in schema.partition_keys if isinstance(schema.by_name[name].type, ORDERED)}
    told = (parse_predicates([filter], schema.by_name) for filter in question["filters"])
    return [bool(found) and find_columns(found[0]) <= keys for found in told]


def _compute_aggregates(place: TableOpener, question: Question, _rows: DataFrame | None) -> DataFrame | None:
    """Return aggregates that metadata can answer, else None."""
    if isinstance(question["state"], Mapping):
        return None  # a system table, or changes
    scan = narrow_scan(place, question)
    if len(parse_predicates(question["filters"], scan.request.schema.by_name)) < len(question["filters"]):
        return None  # Spark asks only if all filters are pushed down
    wanted = [Summary(Summing(function), column) for function, column in question["aggregates"]]
    if not wanted and not question["groups"]:
        return place.spark.range(1).select()  # a global aggregate whose columns the query does not use
    found = summarize(scan._metadata, scan.request, wanted, question["groups"])
    if found is None:
        return None
    fields = list_result_fields(scan.request.schema, wanted, question["groups"])
    return dataframes.to_spark(to_arrow_table(found, fields).to_batches(), fields, place.spark, where=scan.title)


def _estimate_statistics(place: TableOpener, question: Question, _rows: DataFrame | None) -> dict[str, int]:
    """Estimate the number of rows and the bytes of all columns."""
    if isinstance(question["state"], Mapping):
        return {}
    scan = narrow_scan(place, question)
    found = estimate_read(scan._metadata, scan.request)
    return {"rows": found.rows, "bytes": found.size}


TIMES = (t.TimestampType, t.LocalZonedTimestampType)
WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
HASHED = (t.BooleanType, *WHOLE, t.DateType, t.DecimalType, *TIMES, t.VarCharType)
"""Types of bucket keys whose equal values in Spark have equal hashes. FLOAT has two zeros, Spark pads CHAR."""
SPARK_PRECISION = 6
"""The digits of seconds that Spark keeps of a timestamp. More digits are hashed, but not compared."""
MAX_BUCKETS = 256
"""The maximum buckets that are read separately. Each costs the driver about 20 ms; joins of more buckets shuffle."""


def describe_buckets(place: TableOpener, question: Question, _rows: DataFrame | None) -> dict[str, object] | None:
    """Describe the buckets of a read: the key, the function that maps keys to buckets, and the buckets that have rows.

    Returns None if joins on the key need a shuffle: the table has several keys or no fixed buckets, among others. Spark
    has to pad CHAR columns, which reads by bucket do not do. Spark's own catalog, which has the tables that are opened
    by location, cannot load the function.
    """
    if isinstance(question["state"], Mapping) or "place" in question:
        return None
    scan = narrow_scan(place, question)
    schema, options = scan.request.schema, scan.request.options
    keys = options.bucket_key or schema.trimmed_primary_keys
    columns = [schema.by_name.get(name) for name in question["columns"]]
    is_plain = all(column is not None and not isinstance(column.type, t.CharType) for column in columns)
    if options.bucket <= 0 or options.is_chain_table or len(keys) != 1 or keys[0] not in question["columns"]:
        return None
    kind = schema.by_name[keys[0]].type
    is_exact = not isinstance(kind, TIMES) or kind.precision <= SPARK_PRECISION
    if not is_plain or not isinstance(kind, HASHED) or not is_exact:
        return None
    scan = plan_with_outlines(scan, ManifestTasks(place.spark))  # only of tables that may be read by bucket
    plan = scan.plan
    of = None if plan.snapshot is None else plan.snapshot.delta_manifest_list
    METADATA_CACHE.put(_describe_read(question), plan, estimate_plan_bytes(plan), of=of)
    numbers = sorted({section.bucket for section in plan.sections})
    if len(plan.parts) > 1:
        return None
    count = count_fixed_buckets(scan._metadata, scan.request) if 0 < len(numbers) <= MAX_BUCKETS else None
    if count is None:
        return None
    name = "STRING" if isinstance(kind, t.VarCharType) else str(kind.with_nullable(True))
    function = f"{options.bucket_function} {count} {name}"
    return {
        "key": keys[0],
        "function": function,
        "numbers": numbers,
        "order": _find_order(plan, question["columns"]),
    }


def _find_order(plan: ScanPlan, columns: Sequence[str]) -> list[str]:
    """Return the columns by which each bucket is sorted: Spark reads a single file in the order of its keys."""
    buckets = [section.bucket for section in plan.sections]
    if len(set(buckets)) < len(buckets) or not all(each.is_native for each in choose_readers(plan)):
        return []
    if any(len(section.files) > 1 for section in plan.sections):
        return []
    keys = plan.schema.trimmed_primary_keys
    return list(takewhile(lambda name: name in columns and isinstance(plan.schema.by_name[name].type, HASHED), keys))


def read_buckets(place: TableOpener, question: Question, _rows: DataFrame | None) -> list[DataFrame]:
    """Return the rows of each bucket that `describe_buckets` has named, as one DataFrame each."""
    scan = narrow_scan(place, question)
    _check_full_scan(place.spark, scan)
    found = _get_plan(question) or plan_with_outlines(scan, ManifestTasks(place.spark)).plan
    plan = found.with_columns(tuple(question["columns"]))
    sections: dict[int, list[Section]] = {}
    for section in plan.sections:
        sections.setdefault(section.bucket, []).append(section)
    parts = (replace(plan, sections=tuple(sections[number])) for number in question["numbers"])
    return [distributed.to_dataframe(part, scan.store, place.spark, limits=False) for part in parts]


SUMMARY_ANSWERS = {
    "buckets": describe_buckets,
    "read buckets": read_buckets,
    "partition filters": _find_partition_filters,
    "aggregate": _compute_aggregates,
    "statistics": _estimate_statistics,
}


def read_changes(changes: Changes, spark: SparkSession, *, with_kinds: bool) -> DataFrame:
    """Return changed rows, with their kinds as first column. Without kinds, retractions (-U, -D) are left out.

    Raises `Unsupported` for a column whose type this version of Spark does not have.
    """
    fields = changes._fields
    schema = to_spark_schema(drop_not_null((ROWKIND_FIELD, *fields) if with_kinds else fields))
    if changes.is_empty:
        return make_empty_frame(spark, schema)
    job = ChangesJob(fields, StoreAccess.of(changes._metadata.store), with_kinds)
    return run_tasks(
        spark, Work.CHANGES, job, [[encode_changes(group)] for group in divide_changes(changes._parts)], schema
    )
