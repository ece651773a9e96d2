"""The first schema of a table: columns, keys and options converted to the form that Paimon stores, then checked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

from morrow.engine.arguments import check_mapping, check_text, check_texts
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.format.schema import TableSchema
from morrow.engine.options import Options
from morrow.engine.options.declared.table import PARTITION, PRIMARY_KEY
from morrow.engine.redaction import format_columns
from morrow.engine.schema.columns import SchemaLike, assign_ids, read_columns
from morrow.engine.schema.defaults import check_default
from morrow.engine.schema.directives import apply_blob_options, apply_directive, apply_vector_options
from morrow.engine.schema.sql_columns import Column
from morrow.engine.schema.validation import validate_schema
from morrow.engine.structs import replace
from morrow.engine.units import MILLIS_PER_SECOND


def build_first_schema(
    schema: SchemaLike,
    *,
    primary_keys: str | Sequence[str] = (),
    partition_keys: str | Sequence[str] = (),
    options: Mapping[str, object] | None = None,
    comment: str | None = None,
    defaults: Mapping[str, object] | None = None,
    where: str,
) -> TableSchema:
    """Return the schema of id 0 for a new table.

    Args:
        schema: see `read_columns`.
        primary_keys: made NOT NULL; also read from SQL text and from the option ``primary-key``.
        partition_keys: also read from the option ``partition``.
        options: values may be text, numbers and booleans.
        defaults: column name -> the value of rows that omit the column.
        where: the table, for errors.

    Raises:
        InvalidArgument, ColumnNotFound: the description contradicts itself or Paimon's rules.
        Unsupported: a type or an option that Morrow does not handle.
    """
    described = read_columns(schema)
    given = format_options(check_mapping(options, f"{where}: options"), where)
    columns, given = _apply_directives(described.columns, given, where)
    columns = _add_defaults(columns, check_mapping(defaults, f"{where}: defaults"), where)
    _require_distinct("column", [c.name for c in columns], where)
    fields, highest = assign_ids(columns)
    created = TableSchema(
        id=0,
        fields=fields,
        highest_field_id=highest,
        partition_keys=check_texts(partition_keys, f"{where}: partition_keys"),
        primary_keys=_require_one_source(
            "primary key", check_texts(primary_keys, f"{where}: primary_keys"), described.primary_keys, where
        ),
        options=given,
        comment=None if comment is None else check_text(comment, f"{where}: comment"),
        time_millis=int(time.time() * MILLIS_PER_SECOND),
    )
    created = apply_key_options(created, where)
    validate_schema(created, where=where)
    return created


def _apply_directives(
    columns: Sequence[Column], options: dict[str, str], where: str
) -> tuple[tuple[Column, ...], dict[str, str]]:
    made = []
    for column in columns:
        column, options = apply_directive(column, options, where)
        made.append(column)
    return apply_vector_options(apply_blob_options(made, options, where), options, where), options


def apply_key_options(schema: TableSchema, where: str) -> TableSchema:
    """Return the schema with the keys that options name, those options removed, and its primary key NOT NULL.

    Raises:
        InvalidArgument: keys are set both by options and otherwise, or twice. ColumnNotFound: a key is not a column.
    """
    keys_too = (*PRIMARY_KEY.keys, *PARTITION.keys)
    options = {key: value for key, value in schema.options.items() if key not in keys_too}
    given = Options(schema.options, where)
    primary = _require_one_source("primary key", schema.primary_keys, given.get(PRIMARY_KEY), where)
    partition = _require_one_source("partition key", schema.partition_keys, given.get(PARTITION), where)
    for what, keys in (("partition key", partition), ("primary key", primary)):
        _require_distinct(what, keys, where)
        _require_known(what, keys, [field.name for field in schema.fields], where)
    fields = tuple(
        replace(field, type=field.type.with_nullable(False)) if field.name in primary else field
        for field in schema.fields
    )
    return replace(schema, fields=fields, primary_keys=primary, partition_keys=partition, options=options)


def format_options(options: Mapping[str, object], where: str) -> dict[str, str]:
    """Return options as schema files hold them. Raises `InvalidArgument` for a key or value without a text form."""
    return {_check_option_key(key, where): format_option(key, value, where) for key, value in options.items()}


def format_option(key: str, value: object, where: str) -> str:
    """Return one option value as text: ``True`` is ``true``. Raises `InvalidArgument`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, int, float)):
        return check_text(str(value), f"{where}: the option {key!r}")
    raise InvalidArgument(f"{where}: the option {key!r} has the value {value!r}; give text, a number, True or False")


def _check_option_key(key: object, where: str) -> str:
    if isinstance(key, str) and key.strip():
        return check_text(key, f"{where}: the name of an option")
    raise InvalidArgument(f"{where}: {key!r} is not an option's name")


def _require_one_source(what: str, first: tuple[str, ...], second: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the keys from the only source that specifies them."""
    if first and second:
        raise InvalidArgument(
            f"{where}: the {what} is given twice, as ({', '.join(first)}) and as ({', '.join(second)}); give it once"
        )
    return first or second


def _add_defaults(columns: tuple[Column, ...], defaults: Mapping[str, object], where: str) -> tuple[Column, ...]:
    _require_known("default value", defaults, [c.name for c in columns], where)
    return tuple(replace(c, default=check_default(c.type, defaults.get(c.name, c.default), c.name)) for c in columns)


def _require_distinct(what: str, given: Sequence[str], where: str) -> None:
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise InvalidArgument(f"{where}: the {what} {', '.join(map(repr, twice))} is named more than once")


def _require_known(what: str, given: Iterable[str], known: Sequence[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise ColumnNotFound(f"{where}: the {what} {name!r} is not a column; {format_columns(known)}")
