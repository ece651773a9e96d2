"""Merges described by columns and options, each in one line."""

from __future__ import annotations

from collections.abc import Mapping

from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import parse_atomic
from morrow.engine.merge.engines import describe_merge
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import parse_options

Columns = Mapping[str, str | t.DataType]


def row(**members: str) -> t.RowType:
    """Build a ROW type with these members."""
    return t.RowType(fields=tuple(t.DataField(i, name, parse_atomic(m)) for i, (name, m) in enumerate(members.items())))


def described(
    engine: str, columns: Columns, options: Mapping[str, str], *, primary_keys: tuple[str, ...] = ("k",)
) -> MergeSpec:
    """Describe the merge of the table ``/t`` with the key column k INT before `columns`."""
    raw = {"merge-engine": engine, **options}
    kinds = {"k": "INT NOT NULL", **columns}
    fields = tuple(
        t.DataField(number, name, parse_atomic(kind) if isinstance(kind, str) else kind)
        for number, (name, kind) in enumerate(kinds.items())
    )
    schema = TableSchema(0, fields, len(fields), (), primary_keys, raw)
    spec = describe_merge(schema, parse_options(raw, where="/t"), where="/t")
    assert spec is not None
    return spec
