"""Versions of keys are merged to complete rows with sequence number and row kind. Rows are (k, values ..., kind)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.format.schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema
from morrow.engine.format.types import BigIntType, DataField, IntType, parse_atomic
from morrow.engine.merge.engines import describe_merge
from morrow.engine.options import parse_options
from morrow.readers.casts.dtypes import to_polars_dtype
from morrow.readers.merges.engines import fold
from morrow.readers.merges.version_masks import find_versions

KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
NAMES = {code: kind for kind, code in KINDS.items()}


def merged(types: Sequence[str], options: Mapping[str, str], *history: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Fold a history of rows (k, v0, v1, ..., kind), oldest first, to rows (k, v0, ..., sequence number, kind)."""
    columns = tuple(DataField(i + 1, f"v{i}", parse_atomic(kind)) for i, kind in enumerate(types))
    fields = (DataField(0, "k", IntType(nullable=False)), *columns)
    schema = TableSchema(id=0, fields=fields, primary_keys=("k",), options=dict(options), highest_field_id=len(types))
    spec = describe_merge(schema, parse_options(options, where="t"), where="t")
    assert spec is not None
    *values, kinds = zip(*history, strict=True)
    rows = pl.DataFrame(
        [
            *(pl.Series(f.name, column, to_polars_dtype(f.type)) for f, column in zip(fields, values, strict=True)),
            pl.Series(SEQUENCE_NUMBER, range(len(history)), to_polars_dtype(BigIntType())),
            pl.Series(VALUE_KIND, [KINDS[kind] for kind in kinds], pl.Int8),
        ]
    )
    versions = find_versions(rows.select("k"), pl.DataFrame(), ())
    found = fold(spec, columns, rows, versions, where="t").rows()
    return sorted((*row[:-1], NAMES[row[-1]]) for row in found)


PARTIAL = {"merge-engine": "partial-update"}
AGGREGATION = {"merge-engine": "aggregation"}


def test_a_merged_row_has_the_sequence_number_of_its_newest_version() -> None:
    found = merged(
        ["INT", "STRING"],
        PARTIAL,
        (1, 10, None, "+I"),
        (2, 20, "b", "+I"),
        (1, None, "a", "+U"),
        (2, None, None, "+I"),
    )
    assert found == [(1, 10, "a", 2, "+I"), (2, 20, "b", 3, "+I")]


def test_a_removed_row_is_a_deletion_with_the_values_of_its_delete() -> None:
    options = PARTIAL | {"partial-update.remove-record-on-delete": "true"}
    assert merged(["INT"], options, (1, 10, "+I"), (1, 11, "-D")) == [(1, 11, 1, "-D")]
    assert merged(["INT"], options, (1, 10, "+I"), (1, 11, "-D"), (1, None, "+I")) == [(1, 11, 2, "+I")]


def test_a_removal_is_forgotten_when_anything_newer_comes_even_a_retraction() -> None:
    options = PARTIAL | {"partial-update.remove-record-on-delete": "true"}
    assert merged(["INT"], options, (1, 10, "+I"), (1, 11, "-D"), (1, 12, "-U")) == [(1, 11, 2, "+I")]


def test_a_key_that_was_never_inserted_has_no_row() -> None:
    options = PARTIAL | {"ignore-delete": "true"}
    ((*_, kind),) = merged(["INT"], options, (1, 10, "-D"), (1, 11, "-D"))
    assert kind == "-D"


def test_an_ignored_retraction_that_comes_first_still_fills_the_row() -> None:
    options = PARTIAL | {"ignore-delete": "true"}
    assert merged(["INT", "INT"], options, (1, 10, 20, "-D"), (1, 11, None, "+I")) == [(1, 11, 20, 1, "+I")]


GROUP = PARTIAL | {"fields.v0.sequence-group": "v1", "fields.v1.aggregate-function": "sum"}


@pytest.mark.parametrize(
    ("history", "row"),
    [
        ([(1, 1, 5, "+I"), (1, 3, 7, "+I"), (1, 2, 1, "+I")], (1, 3, 13)),  # an older version is added
        ([(1, 1, 5, "+I"), (1, None, 7, "+I")], (1, 1, 5)),  # without a sequence the group is unchanged
        ([(1, 1, 5, "+I"), (1, 2, 3, "-U")], (1, 2, 2)),  # a retraction advances the sequence
        ([(1, 2, 5, "+I"), (1, 1, 3, "-U")], (1, 2, 2)),  # a retraction is applied even if it is older
        ([(1, 1, 5, "-U"), (1, 2, 3, "+I")], (1, 2, 3)),  # creates the row and is then subtracted: 5 - 5 + 3
    ],
)
def test_a_sum_in_a_sequence_group(history: list[tuple[Any, ...]], row: tuple[Any, ...]) -> None:
    ((*values, _sequence, kind),) = merged(["INT", "INT"], GROUP, *history)
    assert (tuple(values), kind) == (row, "+I")


def test_two_groups_may_remove_the_record_and_either_restarts_the_other() -> None:
    options = PARTIAL | {
        "fields.v0.sequence-group": "v1",
        "fields.v2.sequence-group": "v3",
        "partial-update.remove-record-on-sequence-group": "v0,v2",
    }
    types = ["INT"] * 4
    removed = [(1, 5, 50, 5, 50, "+I"), (1, 6, None, None, None, "-D")]
    assert merged(types, options, *removed) == [(1, 6, None, None, None, 1, "-D")]
    # The second group restarts with the row, so a version that was too old before now counts.
    assert merged(types, options, *removed, (1, None, None, 1, 11, "+I")) == [(1, 6, None, 1, 11, 2, "+I")]


def test_aggregation_retracts_and_removes() -> None:
    functions = AGGREGATION | {"fields.v0.aggregate-function": "sum", "fields.v1.aggregate-function": "last_value"}
    history = [(1, 10, "a", "+I"), (1, 3, "b", "-U"), (1, 4, "c", "+U")]
    assert merged(["INT", "STRING"], functions, *history) == [(1, 11, "c", 2, "+I")]
    removing = functions | {"aggregation.remove-record-on-delete": "true"}
    assert merged(["INT", "STRING"], removing, *history, (1, 0, "d", "-D")) == [(1, 0, "d", 3, "-D")]
    again = [*history, (1, 0, "d", "-D"), (1, 2, "e", "+I")]
    assert merged(["INT", "STRING"], removing, *again) == [(1, 2, "e", 4, "+I")]


def test_a_retraction_that_the_function_does_not_have_is_refused_by_column() -> None:
    options = AGGREGATION | {"fields.v0.aggregate-function": "max"}
    history = [(1, 10, "+I"), (1, 3, "-U")]
    with pytest.raises(Unsupported, match=r"'v0'.*fields\.v0\.ignore-retract"):
        merged(["INT"], options, *history)
    assert merged(["INT"], options | {"fields.v0.ignore-retract": "true"}, *history) == [(1, 10, 1, "+I")]
