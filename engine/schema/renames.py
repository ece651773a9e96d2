"""Options that name columns, when columns are renamed: they go on meaning the same columns."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.merge.field_options import PREFIX, SEPARATOR

NAMING = (
    "bucket-key",
    "sequence.field",
    "rowkind.field",
    "record-level.time-field",
    "clustering.columns",
    "partial-update.remove-record-on-sequence-group",
    "changelog-producer.row-deduplicate-ignore-fields",
)
"""Options whose values are names between commas."""

GROUP_SUFFIX = ".sequence-group"
INDEX_PREFIX = "file-index."
INDEX_COLUMNS = "columns"


def renamed_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options after column `old` became `new`."""
    return {_key(key, old, new): _value(key, value, old, new) for key, value in options.items()}


def _key(key: str, old: str, new: str) -> str:
    if key.startswith(PREFIX):
        # Names that have a dot themselves cannot be told from the option's name; Paimon takes none of them either.
        columns, dot, option = key[len(PREFIX) :].partition(".")
        return f"{PREFIX}{_names(columns, old, new)}{dot}{option}"
    if key.startswith(INDEX_PREFIX):
        kind, _, rest = key[len(INDEX_PREFIX) :].partition(".")
        column, dot, option = rest.partition(".")
        if dot and column == old:
            return f"{INDEX_PREFIX}{kind}.{new}.{option}"
    return key


def _value(key: str, value: str, old: str, new: str) -> str:
    is_group = key.startswith(PREFIX) and key.endswith(GROUP_SUFFIX)
    is_index = key.startswith(INDEX_PREFIX) and key.endswith(f".{INDEX_COLUMNS}")
    return _names(value, old, new) if is_group or is_index or key in NAMING else value


def _names(text: str, old: str, new: str) -> str:
    return SEPARATOR.join(part.replace(old, new) if part.strip() == old else part for part in text.split(SEPARATOR))
