"""Folders of partitions: which of the names that their writers may have given them is the one on disk.

A partition has one name, but for two cases, in which it may even lie in several folders:

- Paimon 0.9 wrote legacy names whatever ``partition.legacy-name`` said.
- Java 19 prints some FLOAT and DOUBLE values with fewer digits than Java 8 to 18 (2.0E23, 1.9999999999999998E23): those
  of many digits, beyond what a float counts exactly. As older Javas name them is what most tables have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

from morrow.engine.errors import Unsupported
from morrow.engine.format.binary_row import Value
from morrow.engine.format.partition_path import partition_path
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import BinaryType, DoubleType, FloatType, VarBinaryType
from morrow.engine.io.ahead import each
from morrow.engine.options import TableOptions
from morrow.engine.plan.metadata import TableMetadata

Values: TypeAlias = Sequence[Value | None]


def found_folders(
    metadata: TableMetadata, schema: TableSchema, options: TableOptions, partitions: Mapping[bytes, Values]
) -> dict[bytes, tuple[str, ...]]:
    """Returns ``k=v/...`` of each partition (empty for tables without keys) as the disk has it, nearly always one.

    Only partitions with several possible names are looked for, in a store far away many at once.
    """
    names = {one: _names(schema, options, values) for one, values in partitions.items()}
    doubtful = [one for one, several in names.items() if len(several) > 1]
    found = zip(
        doubtful, each(metadata.store, partial(_those_there, metadata, options), [names[one] for one in doubtful])
    )
    likeliest = {one: (several[0],) for one, several in names.items()}
    return likeliest | {one: there or (names[one][-1],) for one, there in found}


def folder_to_write(metadata: TableMetadata, schema: TableSchema, options: TableOptions, values: Values) -> str:
    """Returns the folder for new files of a partition: the one that is there, else the likeliest name.

    Raises:
        Unsupported: the partition lies in several folders. Its files are read; Java finds those of one of them only.
    """
    names = _names(schema, options, values)
    there = _those_there(metadata, options, names) if len(names) > 1 else ()
    if len(there) > 1:
        raise Unsupported(
            f"writing a partition in the folders {' and '.join(there)}",
            where=metadata.where,
            hint="versions of Java or Paimon have named it differently; write its rows to a new table",
        )
    return next(iter(there), names[0])


def _names(schema: TableSchema, options: TableOptions, values: Values) -> list[str]:
    """Returns all names that a partition may have, the likeliest first."""
    legacy = options.legacy_partition_name
    names = _float_names(schema, options, values, legacy)
    # Bytes have no legacy name that could be found again.
    if not legacy and not any(isinstance(schema.by_name[key].type, BYTES) for key in schema.partition_keys):
        names += _float_names(schema, options, values, True)
    return list(dict.fromkeys(names))


def _float_names(schema: TableSchema, options: TableOptions, values: Values, legacy: bool) -> list[str]:
    types = [schema.by_name[key].type for key in schema.partition_keys]
    default = options.partition_default_name
    named = partial(partition_path, values, types, schema.partition_keys, default_name=default, legacy_name=legacy)
    if not any(isinstance(type_, FLOATS) for type_ in types):
        return [named()]
    return list(dict.fromkeys((named(), named(shortest_floats=True))))


def _those_there(metadata: TableMetadata, options: TableOptions, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if _is_there(metadata, options, name))


def _is_there(metadata: TableMetadata, options: TableOptions, name: str) -> bool:
    parts = (part for part in (metadata.root, options.data_directory, name) if part)
    return metadata.store.is_dir("/".join(parts))


FLOATS = (FloatType, DoubleType)
BYTES = (BinaryType, VarBinaryType)
