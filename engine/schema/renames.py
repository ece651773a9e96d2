"""Updates of options that name columns, when columns are renamed."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.format.file_index.wanted import COLUMNS as INDEX_COLUMNS
from morrow.engine.format.file_index.wanted import PREFIX as INDEX_PREFIX
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

KEY_OF_MAP = "["
GROUP_SUFFIX = f".{columns.SEQUENCE_GROUP.suffix}"


def renamed_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """Returns the options after column `old` became `new`."""
    return {_key(key, old, new): _value(key, value, old, new) for key, value in options.items()}


def _key(key: str, old: str, new: str) -> str:
    if key.startswith(FIELDS):
        found = column_option(key)
        return key if found is None else f"{FIELDS}{_names(found[0], old, new)}.{found[1]}"
    if key.startswith(INDEX_PREFIX):
        kind, _, rest = key[len(INDEX_PREFIX) :].partition(".")
        column, dot, option = rest.partition(".")
        if dot and column.partition(KEY_OF_MAP)[0] == old:
            return f"{INDEX_PREFIX}{kind}.{new}{column[len(old) :]}.{option}"
    return key


def _value(key: str, value: str, old: str, new: str) -> str:
    is_group = key.startswith(FIELDS) and key.endswith(GROUP_SUFFIX)
    is_index = key.startswith(INDEX_PREFIX) and key.endswith(INDEX_COLUMNS)
    if is_index:
        return SEPARATOR.join(_indexed(part, old, new) for part in value.split(SEPARATOR))
    return _names(value, old, new) if is_group or key in NAMING else value


def _indexed(part: str, old: str, new: str) -> str:
    """Renames a column that is indexed, as a whole or, ``map[key]``, the values of a key."""
    column, bracket, key = part.partition(KEY_OF_MAP)
    return f"{_names(column, old, new)}{bracket}{key}"


def _names(text: str, old: str, new: str) -> str:
    return SEPARATOR.join(part.replace(old, new) if part.strip() == old else part for part in text.split(SEPARATOR))
