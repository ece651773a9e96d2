"""Merge engines as data."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from morrow.engine.errors import InvalidArgument, MorrowError, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.engines import describe_merge
from morrow.engine.merge.spec import MergeSpec, Rule
from morrow.engine.options import TableOptions, parse_options

FIELDS = (
    t.DataField(0, "dt", t.VarCharType(nullable=False)),
    t.DataField(1, "id", t.BigIntType(nullable=False)),
    t.DataField(2, "seq", t.IntType()),
    t.DataField(3, "tags", t.ArrayType(element=t.IntType())),
)


def spec(*, primary_keys: Sequence[str] = ("dt", "id"), **options: str) -> MergeSpec | None:
    """Describe the merge of a table partitioned by dt; `__` in an option's name stands for a dot."""
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = TableSchema(0, FIELDS, 3, ("dt",), tuple(primary_keys), raw)
    return describe_merge(schema, parse_options(raw, where="/t"), where="/t")


def test_append_tables_merge_nothing() -> None:
    assert spec(primary_keys=()) is None


def test_deduplicate_is_the_default() -> None:
    assert spec() == MergeSpec("deduplicate", Rule.NEWEST, ("id",))
    assert str(spec()) == "deduplicate by (id) ordered by _SEQUENCE_NUMBER"


def test_sequence_fields_come_before_the_sequence_number() -> None:
    merge = spec(sequence__field="seq,id", sequence__field__sort_order="descending", ignore_delete="true")

    assert merge == MergeSpec("deduplicate", Rule.NEWEST, ("id",), ("seq", "id"), descending=True, ignore_delete=True)
    assert not merge.folds
    assert str(merge) == ("deduplicate by (id) ordered by seq DESC, id DESC, _SEQUENCE_NUMBER, retractions ignored")


def test_first_row() -> None:
    merge = spec(merge_engine="first-row")

    assert merge == spec(merge_engine="first-row", changelog_producer="lookup")
    assert (merge.engine, merge.rule, merge.key) == ("first-row", Rule.FIRST, ("id",))
    assert merge.hides_level_zero
    assert not merge.folds
    assert not merge.updatable
    assert not merge.takes_retractions
    assert spec(merge_engine="first-row", ignore_delete="true").takes_retractions


def test_deletion_vectors_hide_level_zero() -> None:
    assert spec(deletion_vectors__enabled="true") == MergeSpec(
        "deduplicate", Rule.NEWEST, ("id",), hides_level_zero=True
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"sequence__field": "seq"}, "does not go with the option 'sequence.field'"),
        ({"deletion_vectors__enabled": "true"}, "does not go with 'deletion-vectors.enabled': no row is ever replaced"),
        ({"changelog_producer": "input"}, "does not go with 'changelog-producer' = 'input'; it takes none or lookup"),
    ],
)
def test_what_first_row_does_not_go_with(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^/t: merge-engine first-row {problem}"):
        spec(merge_engine="first-row", **options)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation"])
@pytest.mark.parametrize(
    ("error", "fields", "problem"),
    [
        (
            InvalidArgument,
            "nope",
            "the option 'sequence.field' names 'nope', which is not a column; .* dt, id, seq, tags",
        ),
        (InvalidArgument, "seq,seq", "the option 'sequence.field' names 'seq' twice"),
        (Unsupported, "tags", "the sequence field 'tags' of the type ARRAY<INT> is not supported; order versions by"),
    ],
)
def test_sequence_fields_that_order_nothing(engine: str, error: type[MorrowError], fields: str, problem: str) -> None:
    with pytest.raises(error, match=f"^/t: {problem}"):
        spec(merge_engine=engine, sequence__field=fields)


def test_sequence_fields_do_not_reach_over_partitions() -> None:
    with pytest.raises(InvalidArgument, match="keys that may move between partitions; add the partition keys dt to"):
        spec(primary_keys=("id",), sequence__field="seq")


def test_a_sequence_field_takes_no_function() -> None:
    with pytest.raises(InvalidArgument, match="'seq' is a sequence field, which takes no aggregate function; remove"):
        spec(sequence__field="seq", fields__seq__aggregate_function="max")


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("partial-update", {"fields.seq.sequence-group": "tags"}),
        ("aggregation", {"fields.tags.aggregate-function": "collect", "fields.tags.distinct": "true"}),
    ],
)
def test_a_spec_is_data(engine: str, options: dict[str, str]) -> None:
    raw = {"merge-engine": engine, **options}
    schema = TableSchema(0, FIELDS, 3, ("dt",), ("dt", "id"), raw)
    first, second = (describe_merge(schema, parse_options(raw, where="/t"), where="/t") for _ in range(2))

    assert first == second
    assert hash(first) == hash(second)
    assert pickle.loads(pickle.dumps(first)) == first


def test_an_engine_that_morrow_does_not_know_is_never_read_as_another() -> None:
    schema = TableSchema(0, FIELDS, 3, ("dt",), ("dt", "id"))

    with pytest.raises(Unsupported, match=r"^/t: the merge engine 'newest' is not supported; Morrow reads dedup"):
        describe_merge(schema, TableOptions(merge_engine="newest"), where="/t")


def test_partition_columns_outside_the_key_fold_like_others() -> None:
    merge = spec(primary_keys=("id",), merge_engine="aggregation")

    assert merge is not None
    assert [column.name for column in merge.columns] == ["dt", "seq", "tags"]


@pytest.mark.parametrize("engine", ["deduplicate", "first-row", "partial-update", "aggregation"])
def test_options_of_a_column_that_is_not_there(engine: str) -> None:
    with pytest.raises(
        InvalidArgument, match=r"^/t: the option 'fields.nope.ignore-retract' names 'nope', which is no"
    ):
        spec(merge_engine=engine, fields__nope__ignore_retract="true")
