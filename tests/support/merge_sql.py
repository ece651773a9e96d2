"""Merge SQL that DuckDB runs over records, and the row-wise oracle for the same records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from morrow.engine.format.types import parse_atomic
from morrow.engine.merge.engines import describe_merge
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import parse_options
from morrow.readers.merges.sql_merge import merge_query
from morrow.readers.merges.sql_statements import MergeQuery
from tests.oracle import MERGE_ENGINES, Record, Row, Rules, by_age
from tests.support.data_files import KIND_CODES
from tests.support.unordered import set_columns

Version = tuple[Any, ...]
"""The kind of a record ("+I", "-U", "+U", "-D") and its columns. The position in a list is the sequence number."""


@dataclass(frozen=True)
class MergedTable:
    """A table's columns, options and primary key `keys`."""

    fields: tuple[t.DataField, ...]
    options: Mapping[str, str]
    keys: tuple[str, ...] = ("k",)

    @classmethod
    def of(
        cls, engine: str, columns: Mapping[str, str | t.DataType], options: Mapping[str, str] | None = None
    ) -> MergedTable:
        """Make a table with the key column k INT before `columns`."""
        kinds = {"k": "INT NOT NULL", **columns}
        fields = (
            t.DataField(i, name, parse_atomic(kind) if isinstance(kind, str) else kind)
            for i, (name, kind) in enumerate(kinds.items())
        )
        return cls(tuple(fields), {"merge-engine": engine, **(options or {})})

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    @property
    def spec(self) -> MergeSpec:
        schema = TableSchema(0, self.fields, len(self.fields), (), self.keys, dict(self.options))
        spec = describe_merge(schema, parse_options(dict(self.options), where="/t"), where="/t")
        assert spec is not None
        return spec

    def query(self, *, retractions: bool = True) -> MergeQuery:
        return merge_query(self.spec, self.fields, retractions=retractions)

    def sql_rows(self, versions: Sequence[Version], *, retractions: bool = True) -> list[Row]:
        """Merge the versions in DuckDB, and return the rows in key order."""
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("versions", self._relation(versions))
            merged = connection.sql(self.query(retractions=retractions).text).to_arrow_table()
        assert merged.column_names == self.names
        columns = [merged.column(f.name).cast(f.type.arrow()).to_pylist() for f in self.fields]
        return self._sorted(zip(*columns, strict=True))

    def oracle_rows(self, versions: Sequence[Version]) -> list[Row]:
        """Merge the versions with the oracle."""
        rules = Rules.of(self.options, self.fields, self.keys)
        by_key: dict[Row, list[Record]] = defaultdict(list)
        for sequence, (kind, *row) in enumerate(versions):
            record = Record(self._key(row), sequence, kind, tuple(row))
            by_key[record.key].append(record)
        merge = MERGE_ENGINES[rules.merge_engine]
        merged = (merge(by_age(records, self.names, rules), self.names, rules) for records in by_key.values())
        return self._sorted(row for row in merged if row is not None)

    def comparable(self, rows: Sequence[Row]) -> list[Row]:
        """Make rows comparable: drop the order of hash sets and hash maps, and round FLOAT to 32 bits."""
        sets = set_columns(self.names, self.options)

        def column(field: t.DataField, value: Any) -> Any:
            if value is not None and (field.name in sets or isinstance(field.type, t.MapType)):
                return Counter(map(repr, value))
            if value is not None and isinstance(field.type, t.FloatType):
                return float(np.float32(value))
            return value

        return [tuple(column(f, v) for f, v in zip(self.fields, row, strict=True)) for row in rows]

    def _key(self, row: Sequence[Any]) -> Row:
        return tuple(row[self.names.index(name)] for name in self.keys)

    def _sorted(self, rows: Any) -> list[Row]:
        return sorted(map(tuple, rows), key=self._key)

    def _relation(self, versions: Sequence[Version]) -> pa.Table:
        columns = {f.name: pa.array([v[i + 1] for v in versions], f.type.arrow()) for i, f in enumerate(self.fields)}
        columns[SEQUENCE_NUMBER] = pa.array(range(len(versions)), pa.int64())
        columns[VALUE_KIND] = pa.array([KIND_CODES[v[0]] for v in versions], pa.int8())
        return pa.table(columns)
