"""The columns of a data file and their order: in keyed tables, the columns of the merge precede those of the table.

    append      <column>...
    keyed       _KEY_<key>...  _SEQUENCE_NUMBER  _VALUE_KIND  <column>...
    thin mode                  _SEQUENCE_NUMBER  _VALUE_KIND  <column>...

Keys are the trimmed primary key. Partition columns are stored like any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from morrow.engine.format.schema import SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD, key_field
from morrow.engine.format.types import DataField
from morrow.engine.names import col, cols
from morrow.writers.target import WriteTarget


@dataclass(frozen=True)
class FileLayout:
    """`columns` of the table, its trimmed primary key (empty in append tables), and whether keys are stored twice."""

    columns: tuple[DataField, ...]
    keys: tuple[DataField, ...] = ()
    thin: bool = False

    @classmethod
    def of(cls, target: WriteTarget) -> FileLayout:
        schema = target.schema
        keys = tuple(schema.by_name[name] for name in schema.trimmed_primary_keys) if target.keyed else ()
        return cls(schema.fields, keys, target.write.thin_mode)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """The ``_KEY_`` columns of the file."""
        return () if self.thin else tuple(map(key_field, self.keys))

    @cached_property
    def fields(self) -> tuple[DataField, ...]:
        """All columns of the file."""
        system = (SEQUENCE_NUMBER_FIELD, VALUE_KIND_FIELD) if self.keys else ()
        return (*self.key_fields, *system, *self.columns)

    def stored(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Returns the columns of the file from a version frame (keyed) or a plain frame."""
        if not self.keys and frame.columns == [field.name for field in self.columns]:
            return frame
        copies = () if self.thin else (col(k.name).alias(c.name) for k, c in zip(self.keys, self.key_fields))
        return frame.select(*copies, *cols(field.name for field in self.fields[len(self.key_fields) :]))
