"""A plan as one statement for DuckDB over ``read_parquet``, which needs nothing of Morrow.

RAW sections are scans without the positions that deletion vectors name dead. A MERGE section is a relation of versions
under the SQL of its merge engine (`readers.merges.sql`). Files of older schemas are selected with their own names of
the columns, and cast where DuckDB casts as Paimon does. What SQL cannot say is `Unsupported`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import numpy as np

from morrow.engine.errors import Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import LEVEL, SEQUENCE_NUMBER, VALUE_KIND
from morrow.engine.format.types import DataField, DataType
from morrow.engine.io.store import FileStore
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.plan.in_flight import in_flight
from morrow.engine.plan.predicate import ALWAYS
from morrow.engine.plan.scan_plan import DataFile, ScanPlan, Section, SectionKind
from morrow.readers.expressions.sql import compile as compiled
from morrow.readers.expressions.sql import quote_identifier, quote_literal, quote_path
from morrow.readers.files.file_frames import written_fields
from morrow.readers.files.virtual_columns import virtual_columns
from morrow.readers.masks.live import read_deletion
from morrow.readers.merges.sql import merge_query
from morrow.readers.merges.sql.statement import Names
from morrow.readers.merges.sql.types import REALS, holds_reals, inner_types, type_name

PARQUET = "parquet"
POSITION = "file_row_number"
"""DuckDB's column of positions in a file."""
VERSIONS = "versions"
UNION = "\nUNION ALL\n"
MOST_LISTED = 1_000
"""Dead positions that are listed; more are bits of a literal."""
MOST_DIGITS = 6
"""The most digits of a second in a timestamp: files hold more in a form that DuckDB reads in microseconds."""
REFUSED = (t.VariantType, t.BlobType, t.VectorType, t.MultisetType)
TEXTS = (t.CharType, t.VarCharType, t.BinaryType, t.VarBinaryType)
WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
HASHED = "Paimon's order of distinct elements is that of a hash table of Java's"
SIGNLESS = "DuckDB takes 0.0 and -0.0 for one"
NO_ROWS = "WHERE false"


def plain_sql(plan: ScanPlan, store: FileStore) -> str:
    """Returns the statement whose rows are those of the plan, in no order; it ends without a semicolon.

    Raises:
        Unsupported: files, types, casts, merges or filters that SQL cannot say.
        CorruptFile, FileMissing: a deletion vector cannot be read.
    """
    if not plan.columns:
        raise Unsupported("a read of no columns as SQL", where=plan.table)
    with in_flight(plan, store):
        parts = [select for part in plan.parts for select in _part(part, store)]
    names = ", ".join(map(quote_identifier, plan.columns))
    rows = UNION.join(parts) or _no_rows(plan)
    limit = "" if plan.limit is None else f"\nLIMIT {plan.limit}"
    return f"SELECT {names}\nFROM (\n{rows}\n) AS live{_where(plan)}{limit}"


def _no_rows(plan: ScanPlan) -> str:
    names = ", ".join(f"CAST(NULL AS {_type(f)}) AS {quote_identifier(f.name)}" for f in _fields(plan))
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


def _part(plan: ScanPlan, store: FileStore) -> Iterable[str]:
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
            yield from _raw(plan, section, fields, store)


def _is_merged(plan: ScanPlan, section: Section) -> bool:
    """Returns whether the merge decides: files overlap, or a retraction may stand alone."""
    if section.kind is SectionKind.MERGE:
        return True
    return plan.drops_retractions and any(file.may_hold_retractions for file in section.files)


def _raw(plan: ScanPlan, section: Section, fields: Sequence[DataField], store: FileStore) -> Iterable[str]:
    def shape(file: DataFile) -> tuple[object, ...]:
        return file.schema_id, file.write_columns or (), file.format, file.path if file.deletion is not None else ""

    for _, group in groupby(sorted(section.files, key=lambda file: str(shape(file))), key=shape):
        yield _files(plan, section, list(group), fields, store)


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
) -> str:
    """Returns the live rows of files of one shape, as they are stored."""
    first = files[0]
    if first.format != PARQUET:
        raise Unsupported(f"files of the format {first.format} as SQL", where=plan.table)
    constants = dict(zip(plan.schema.partition_keys, section.partition))
    written = {field.id: field for field in written_fields(plan, first)}
    items = []
    for field in fields:
        if field.name in constants:
            value, kind = constants[field.name], _type(field)
            assert not isinstance(value, np.datetime64)  # of timestamps with nanoseconds
            expression = "NULL" if value is None else quote_literal(value, field.type)
            expression = f"CAST({expression} AS {kind})"
        else:
            expression = _column(written.get(field.id), field)
        items.append(f"{expression} AS {quote_identifier(field.name)}")
    if versions:
        items += [quote_identifier(SEQUENCE_NUMBER), quote_identifier(VALUE_KIND)]
    dead = None if first.deletion is None else _alive(first, store)
    if dead is not None and any(field.name.casefold() == POSITION for field in written.values()):
        raise Unsupported(f"a column {POSITION!r} beside deletion vectors, as SQL,", where=plan.table)
    paths = ", ".join(quote_path(file.path if store.is_local else store.url(file.path)) for file in files)
    options = f"hive_partitioning = false{'' if dead is None else f', {POSITION} = true'}"
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


# Columns


def _type(field: DataField) -> str:
    _check(field.type, field.name)
    return type_name(field.type)


def _check(kind: DataType, name: str) -> None:
    if isinstance(kind, REFUSED):
        raise Unsupported(f"the type {kind.text()} of the column {name!r} as SQL")
    if isinstance(kind, (t.TimestampType, t.LocalZonedTimestampType)) and kind.precision > MOST_DIGITS:
        raise Unsupported(f"the type {kind.text()} of the column {name!r} as SQL", hint="DuckDB reads microseconds")
    for inner in inner_types(kind):
        _check(inner, name)


def _column(stored: DataField | None, field: DataField) -> str:
    """Returns a column of a file as the column that is read: columns that are newer than the file are null."""
    kind = _type(field)
    if stored is None:
        return f"CAST(NULL AS {kind})"
    _check(stored.type, field.name)
    given, wanted = stored.type.with_nullable(True), field.type.with_nullable(True)
    if given != wanted and not any(allows(given, wanted) for allows in CASTS):
        raise Unsupported(f"values of {field.name!r}, stored as {given.text()}, as {wanted.text()} in SQL")
    value = f"CAST({quote_identifier(stored.name)} AS {kind})"
    return _without_statistics(value, wanted) if holds_reals(wanted) or _may_hold_null_text(stored.type) else value


def _may_hold_null_text(kind: DataType, nullable: bool = False) -> bool:
    """Returns whether a value, or a member of it, may be text or bytes beside nulls.

    DuckDB 2.0 takes a page without a dictionary that has one text and nulls for that text everywhere, or for null, as
    soon as it tests it for null where it reads it.
    """
    nullable = nullable or kind.nullable
    if isinstance(kind, t.RowType):
        return any(_may_hold_null_text(field.type, nullable) for field in kind.fields)
    return nullable and isinstance(kind, TEXTS)


def _without_statistics(value: str, kind: DataType) -> str:
    """Returns the same value by an expression of which DuckDB believes no statistics: those of files leave out NaN."""
    if isinstance(kind, t.ArrayType):
        return f"({value})[:]"
    if isinstance(kind, t.MapType):
        return f"map_from_entries(map_entries({value})[:])"
    return f"CASE WHEN {value} IS NULL THEN NULL ELSE {value} END"


def _is_wider(given: DataType, wanted: DataType) -> bool:
    kinds = [type(kind) for kind in (given, wanted)]
    return all(kind in WHOLE for kind in kinds) and WHOLE.index(kinds[0]) < WHOLE.index(kinds[1])


def _is_longer(given: DataType, wanted: DataType) -> bool:
    for kinds in ((t.VarCharType,), (t.VarBinaryType,)):
        if isinstance(given, kinds) and isinstance(wanted, kinds):
            return bool(given.length <= wanted.length)
    return False


def _is_more_precise(given: DataType, wanted: DataType) -> bool:
    if not isinstance(given, t.DecimalType) or not isinstance(wanted, t.DecimalType):
        return False
    return given.scale == wanted.scale and given.precision <= wanted.precision


CASTS: Sequence[Callable[[DataType, DataType], bool]] = (
    _is_wider,
    _is_longer,
    _is_more_precise,
    lambda given, wanted: isinstance(given, t.FloatType) and isinstance(wanted, t.DoubleType),
    lambda given, wanted: type(given) in WHOLE[:3] and isinstance(wanted, t.DoubleType),
)
"""Whether DuckDB casts as Paimon does, without an error for any value."""
