"""Options that name columns follow them."""

from __future__ import annotations

import pytest

from morrow.engine.format.schema import TableSchema
from morrow.engine.format.types import DataField, IntType
from morrow.engine.schema.renames import options_then, renamed_options


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"bucket-key": "a,b"}, {"bucket-key": "x,b"}),
        ({"sequence.field": "b, a"}, {"sequence.field": "b, x"}),
        ({"rowkind.field": "a"}, {"rowkind.field": "x"}),
        ({"fields.a.aggregate-function": "sum"}, {"fields.x.aggregate-function": "sum"}),
        ({"fields.a.anything.else": "a"}, {"fields.x.anything.else": "a"}),
        ({"fields.a,b.sequence-group": "c,a"}, {"fields.x,b.sequence-group": "c,x"}),
        ({"fields.b,a.sequence-group": "a.b"}, {"fields.b,x.sequence-group": "a.b"}),
        ({"fields.a.b.distinct": "true"}, {"fields.a.b.distinct": "true"}),
        ({"fields.default-aggregate-function": "a"}, {"fields.default-aggregate-function": "a"}),
        ({"fields.n.nested-key": "a"}, {"fields.n.nested-key": "a"}),
        ({"file-index.bloom-filter.columns": "a,b"}, {"file-index.bloom-filter.columns": "x,b"}),
        ({"file-index.bloom-filter.a.fpp": "0.1"}, {"file-index.bloom-filter.x.fpp": "0.1"}),
        ({"file.format": "a", "comment": "a"}, {"file.format": "a", "comment": "a"}),
        ({"bucket-key": "aa,ba"}, {"bucket-key": "aa,ba"}),
    ],
)
def test_options_after_a_became_x(before: dict[str, str], after: dict[str, str]) -> None:
    assert renamed_options(before, "a", "x") == after


def schema(columns: dict[str, int], options: dict[str, str]) -> TableSchema:
    return TableSchema(0, tuple(DataField(id, name, IntType()) for name, id in columns.items()), 9, (), (), options)


def test_options_of_today_for_the_columns_of_then() -> None:
    """Names that two columns have exchanged, a column that came, one that went, one that came under a former name."""
    then = schema({"id": 0, "a": 1, "b": 2, "gone": 3}, {"fields.gone.aggregate-function": "max", "bucket": "1"})
    options = {"fields.a.aggregate-function": "sum", "fields.b,new.sequence-group": "a, new", "bucket": "2"}
    options |= {"fields.gone.aggregate-function": "min", "fields.new.ignore-retract": "true", "sequence.field": "id"}
    newest = schema({"id": 0, "a": 2, "b": 1, "new": 4, "gone": 5}, options)
    assert options_then(newest, then) == {
        "fields.b.aggregate-function": "sum",
        "fields.a.sequence-group": "b",
        "fields.gone.aggregate-function": "max",
        "bucket": "2",
        "sequence.field": "id",
    }
    assert options_then(newest, newest) is newest.options
