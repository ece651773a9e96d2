"""Updates of options that name columns, when columns are renamed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from morrow.engine.format.file_index.wanted import COLUMNS as INDEX_COLUMNS
from morrow.engine.format.file_index.wanted import PREFIX as INDEX_PREFIX
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.field_options import SEPARATOR
from morrow.engine.options.declared import columns, compaction, merging, table
from morrow.engine.options.declaring import FIELDS
from morrow.engine.options.registry import column_option

NAMING = frozenset(
    key
    for option in (
        table.BUCKET_KEY,
        merging.SEQUENCE_FIELD,
        merging.ROWKIND_FIELD,
        merging.RECORD_LEVEL_TIME_FIELD,
        merging.PARTIAL_UPDATE_REMOVE_RECORD_ON_SEQUENCE_GROUP,
        merging.CHANGELOG_PRODUCER_ROW_DEDUPLICATE_IGNORE_FIELDS,
        compaction.CLUSTERING_COLUMNS,
    )
    for key in option.keys
)
"""Options whose values are column names separated by commas."""

GROUP_SUFFIX = f".{columns.SEQUENCE_GROUP.suffix}"


def renamed_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Returns the options after column `old` became `new`."""
    return _renamed(options, {old: new})


def options_then(newest: TableSchema, then: TableSchema) -> Mapping[str, str]:
    """Returns the options of the newest schema as an older one takes them: its columns as they were named then.

    Columns that came later are left out of them. Those that have gone since have the options that they had.
    """
    names_then = {field.id: field.name for field in then.fields}
    names = {field.name: names_then.get(field.id) for field in newest.fields}
    if all(name == then_named for name, then_named in names.items()) and len(names) == len(names_then):
        return newest.options
    gone = names_then.keys() - {field.id for field in newest.fields}
    theirs = {names_then[number] for number in gone}
    kept = {key: value for key, value in then.options.items() if not theirs.isdisjoint(_columns(key))}
    return {**kept, **_renamed(newest.options, names)}


Names: TypeAlias = "Mapping[str, str | None]"
"""Column -> its other name, None where there is no such column."""


def _renamed(options: Mapping[str, str], names: Names) -> dict[str, str]:
    made = {}
    for key, value in options.items():
        new_key, new_value = _key(key, names), _value(key, value, names)
        if new_key is not None and new_value is not None:
            made[new_key] = new_value
    return made


def _columns(key: str) -> list[str]:
    """Returns the columns that the key of an option names."""
    found = column_option(key) if key.startswith(FIELDS) else None
    return [] if found is None else [part.strip() for part in found[0].split(SEPARATOR)]


def _key(key: str, names: Names) -> str | None:
    if key.startswith(FIELDS):
        found = column_option(key)
        if found is None:
            return key
        columns = _listed(found[0], names)
        return None if columns is None else f"{FIELDS}{columns}.{found[1]}"
    if key.startswith(INDEX_PREFIX):
        kind, _, rest = key[len(INDEX_PREFIX) :].partition(".")
        column, dot, option = rest.partition(".")
        if dot and column in names:
            new = names[column]
            return None if new is None else f"{INDEX_PREFIX}{kind}.{new}.{option}"
    return key


def _value(key: str, value: str, names: Names) -> str | None:
    is_group = key.startswith(FIELDS) and key.endswith(GROUP_SUFFIX)
    is_index = key.startswith(INDEX_PREFIX) and key.endswith(INDEX_COLUMNS)
    return _listed(value, names) if is_group or is_index or key in NAMING else value


def _listed(text: str, names: Names) -> str | None:
    """Returns a list of columns by their other names, without those that there are not; None where that leaves none."""
    made = []
    for part in text.split(SEPARATOR):
        column = part.strip()
        new = names.get(column, column)
        if new is not None:
            made.append(part.replace(column, new) if column else part)
    return SEPARATOR.join(made) if made else None
