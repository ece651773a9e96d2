"""Options that name columns follow them."""

from __future__ import annotations

import pytest

from morrow.engine.schema.renames import renamed_options


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
        ({"file-index.bloom-filter.columns": "a[k], b[a]"}, {"file-index.bloom-filter.columns": "x[k], b[a]"}),
        ({"file-index.bloom-filter.a[k].fpp": "0.1"}, {"file-index.bloom-filter.x[k].fpp": "0.1"}),
        ({"file.format": "a", "comment": "a"}, {"file.format": "a", "comment": "a"}),
        ({"bucket-key": "aa,ba"}, {"bucket-key": "aa,ba"}),
    ],
)
def test_options_after_a_became_x(before: dict[str, str], after: dict[str, str]) -> None:
    assert renamed_options(before, "a", "x") == after
