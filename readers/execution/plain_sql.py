"""A plan as one statement for DuckDB over ``read_parquet``, which needs nothing of Morrow.

RAW sections are scans without the positions that deletion vectors name dead. A MERGE section is a relation of versions
under the SQL of its merge engine (`readers.merges.sql`). Files of older schemas are selected with their own names of
the columns, and cast where DuckDB casts as Paimon does. What SQL cannot say is `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.format.types import DataField
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.execution.plain_columns import FILE, column_type, file_column
from morrow.readers.expressions.sql import compile as compiled
from morrow.readers.expressions.sql import quote_identifier, quote_literal, quote_path
from morrow.readers.files.file_frames import written_fields
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.masks.live import read_deletion
from morrow.readers.merges.sql import merge_query
from morrow.readers.merges.sql.statement import Names
from morrow.readers.merges.sql.types import REALS, holds_reals

PARQUET = "parquet"
POSITION = "file_row_number"
"""DuckDB's column of positions in a file."""
VERSIONS = "versions"
UNION = "\nUNION ALL\n"
MOST_LISTED = 1_000
"""Dead positions that are listed; more are bits of a literal."""
HASHED = "Paimon's order of distinct elements is that of a hash table of Java's"
SIGNLESS = "DuckDB takes 0.0 and -0.0 for one"
NO_ROWS = "WHERE false"


def plain_sql(plan: ScanPlan, store: FileStore, *, bare: bool = False) -> str:
    """Returns the statement whose rows are those of the plan, in no order; it ends without a semicolon.

    `bare`: the same in few words for DuckDB to bind, which need its column `FILE`. Columns of files then have the types
    that it finds there, and these are those of the table in all but odd files.

    Raises:
        Unsupported: files, types, casts, merges or filters that SQL cannot say.
        CorruptFile, FileMissing: a deletion vector cannot be read.
    """
    if not plan.columns:
        raise Unsupported("a read of no columns as SQL", where=plan.table)
    with in_flight(plan, store):
        parts = [select for part in plan.parts for select in _part(part, store, bare)]
    rows, where = UNION.join(parts) or _no_rows(plan), _where(plan)
    if not where and plan.limit is None and tuple(field.name for field in _fields(plan)) == plan.columns:
        return rows  # DuckDB binds every column of a query around it, too
    names = ", ".join(map(quote_identifier, plan.columns))
    limit = "" if plan.limit is None else f"\nLIMIT {plan.limit}"
    return f"SELECT {names}\nFROM (\n{rows}\n) AS live{where}{limit}"


def _no_rows(plan: ScanPlan) -> str:
    names = ", ".join(f"CAST(NULL AS {column_type(f)}) AS {quote_identifier(f.name)}" for f in _fields(plan))
    return f"SELECT {names} {NO_ROWS}"


def _fields(plan: ScanPlan) -> tuple[DataField, ...]:
    return tuple(plan.schema.by_name[name] for name in plan.read_columns if name in plan.schema.by_name)


def _where(plan: ScanPlan) -> str:
    conditions = []
    if plan.filter.predicate != ALWAYS:
        conditions.append(compiled(plan.filter.predicate, plan.schema.fields))
    for residual in plan.filter.residuals:
        zoned = [n for n in residual.columns if isinstance(plan.schema.by_name[n].type, t.LocalZonedTimestampType)]
        if residual.kind != "sql" or zoned:
            raise Unsupported(f"the condition {residual.text!r} as SQL", where=plan.table)
        conditions.append(f"({residual.expression}\n)")
    return f"\nWHERE {' AND '.join(conditions)}" if conditions else ""


# Sections


def _part(plan: ScanPlan, store: FileStore, bare: bool) -> Iterable[str]:
    fields = _fields(plan)
    names = [field.name for field in plan.schema.fields]
    if len({name.casefold() for name in names}) < len(names):
        raise Unsupported("SQL on columns that differ only in case", where=plan.table, hint="DuckDB takes them for one")
    if len(fields) < len(plan.read_columns) or virtual_columns(plan, fields):
        raise Unsupported("columns that no file holds, as SQL,", where=plan.table)
    for section in plan.sections:
        if section.kind is SectionKind.STITCH or section.cut is not None:
            raise Unsupported("rows whose columns lie in several files, as SQL,", where=plan.table)
        if _is_merged(plan, section):
            yield _merged(plan, section, fields, store)
        else:
            yield from _raw(plan, section, fields, store, bare)


def _is_merged(plan: ScanPlan, section: Section) -> bool:
    """Returns whether the merge decides: files overlap, or a retraction may stand alone."""
    if section.kind is SectionKind.MERGE:
        return True
    return plan.drops_retractions and any(file.may_hold_retractions for file in section.files)


def _raw(plan: ScanPlan, section: Section, fields: Sequence[DataField], store: FileStore, bare: bool) -> Iterable[str]:
    def shape(file: DataFile) -> tuple[object, ...]:
        return file.schema_id, file.write_columns or (), file.format, file.path if file.deletion is not None else ""

    for _, group in groupby(sorted(section.files, key=lambda file: str(shape(file))), key=shape):
        yield _files(plan, section, list(group), fields, store, bare=bare)


def _merged(plan: ScanPlan, section: Section, fields: Sequence[DataField], store: FileStore) -> str:
    spec = plan.merge
    if spec is None or spec.keeps_retractions:
        raise Unsupported("this merge as SQL", where=plan.table)
    ordering = [plan.schema.by_name[name] for name in (*spec.key, *plan.schema.primary_keys, *spec.sequence)]
    for field in ordering:
        if isinstance(field.type, REALS):
            raise Unsupported(
                f"versions of keys in the order of {field.name!r}, which is {field.type.text()}, as SQL,",
                where=plan.table,
                hint=SIGNLESS,
            )
    for field in plan.schema.fields if spec.folds else ():
        # DuckDB aggregates what is no DOUBLE by its place in an order.
        if holds_reals(field.type) and not isinstance(field.type, t.DoubleType):
            raise Unsupported(
                f"the merge of {field.name}, which is {field.type.text()}, as SQL,", where=plan.table, hint=SIGNLESS
            )
    for column in spec.columns:
        if column.call is not None and column.call.distinct:
            raise Unsupported(f"the merge of {column.name}: {column.call}, as SQL,", where=plan.table, hint=HASHED)
    retractions = any(file.may_hold_retractions for file in section.files)
    query = merge_query(spec, plan.schema.fields, relation=VERSIONS, retractions=retractions)
    if not query.runnable:
        raise Unsupported(f"the merge of {'; '.join(query.left_out)}, as SQL,", where=plan.table)
    versions = _versions(plan, spec, section, store)
    names = ", ".join(quote_identifier(field.name) for field in fields) or "*"
    relation = quote_identifier(VERSIONS)
    return f"SELECT {names} FROM (\nWITH {relation} AS (\n{versions}\n)\nSELECT * FROM (\n{query.text}\n) AS merged\n)"


def _versions(plan: ScanPlan, spec: MergeSpec, section: Section, store: FileStore) -> str:
    """Returns the rows of all files of the section that the merge counts, with sequence numbers and kinds."""
    selects = [_files(plan, section, [file], plan.schema.fields, store, versions=True) for file in section.files]
    if not spec.looks_up or len({file.level for file in section.files if file.level > 0}) < 2:
        return UNION.join(selects)
    # Above level 0 a key counts in its lowest level alone: what lies higher is folded into that.
    level = quote_identifier(Names(plan.schema.by_name).fresh(LEVEL))
    leveled = UNION.join(
        f"SELECT *, {file.level} AS {level} FROM ({select})" for file, select in zip(section.files, selects)
    )
    key = ", ".join(map(quote_identifier, spec.key))
    lowest = f"min({level}) FILTER ({level} > 0) OVER (PARTITION BY {key})"
    return f"SELECT * EXCLUDE ({level}) FROM (\n{leveled}\n)\nQUALIFY {level} = 0 OR {level} = {lowest}"


# Files


def _files(
    plan: ScanPlan,
    section: Section,
    files: Sequence[DataFile],
    fields: Sequence[DataField],
    store: FileStore,
    *,
    versions: bool = False,
    bare: bool = False,
) -> str:
    """Returns the live rows of files of one shape, as they are stored."""
    first = files[0]
    if first.format != PARQUET:
        raise Unsupported(f"files of the format {first.format} as SQL", where=plan.table)
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    written = {field.id: field for field in written_fields(plan, first)}
    bare = bare and not any(field.name.casefold() == FILE for field in written.values())
    items = []
    for field in fields:
        if field.name in constants:
            value, kind = constants[field.name], column_type(field)
            assert not isinstance(value, np.datetime64)  # of timestamps with nanoseconds
            expression = "NULL" if value is None else quote_literal(value, field.type)
            expression = f"CAST({expression} AS {kind})"
        else:
            expression = file_column(written.get(field.id), field, bare)
        name = quote_identifier(field.name)
        items.append(name if expression == name else f"{expression} AS {name}")
    if versions:
        items += [quote_identifier(SEQUENCE_NUMBER), quote_identifier(VALUE_KIND)]
    dead = None if first.deletion is None else _alive(first, store)
    if dead is not None and any(field.name.casefold() == POSITION for field in written.values()):
        raise Unsupported(f"a column {POSITION!r} beside deletion vectors, as SQL,", where=plan.table)
    paths = ", ".join(quote_path(file.path if store.is_local else store.url(file.path)) for file in files)
    # What the session has chosen would make text of bytes, and escapes in it bytes again.
    options = f"hive_partitioning = false, binary_as_string = false{'' if dead is None else f', {POSITION} = true'}"
    where = "" if dead is None else f" WHERE {dead}"
    return f"SELECT {', '.join(items) or 'NULL'} FROM read_parquet([{paths}], {options}){where}"


def _alive(file: DataFile, store: FileStore) -> str:
    """Returns the condition that a row is not among those that the deletion vector names."""
    live = read_deletion(file, store).to_numpy()
    dead = np.flatnonzero(~live)
    if len(dead) <= MOST_LISTED:
        return f"{POSITION} NOT IN ({', '.join(map(str, dead))})" if len(dead) else "true"
    bits = (live + ord("0")).astype(np.uint8).tobytes().decode("ascii")
    return f"get_bit('{bits}'::BIT, {POSITION}::INTEGER) = 1"
