"""Merge engines as data."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import pytest

from morrow.engine.errors import ColumnNotFound, InvalidArgument, Unsupported
from morrow.engine.format import types as t
from morrow.engine.format.schema import TableSchema
from morrow.engine.merge.registry import merge_spec
from morrow.engine.merge.spec import MergeSpec
from morrow.engine.options import parse_options

FIELDS = (
    t.DataField(0, "dt", t.VarCharType(nullable=False)),
    t.DataField(1, "id", t.BigIntType(nullable=False)),
    t.DataField(2, "seq", t.IntType()),
    t.DataField(3, "tags", t.ArrayType(element=t.IntType())),
)


def spec(*, primary_keys: Sequence[str] = ("dt", "id"), **options: str) -> MergeSpec | None:
    """The merge of a table partitioned by dt; `merge_engine` is the option merge-engine, `__` stands for a dot."""
    raw = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    schema = TableSchema(0, FIELDS, 3, ("dt",), tuple(primary_keys), raw)
    return merge_spec(schema, parse_options(raw, where="/t"), where="/t")


def test_append_tables_merge_nothing() -> None:
    assert spec(primary_keys=()) is None


def test_deduplicate_is_the_default() -> None:
    assert spec() == MergeSpec("deduplicate", ("id",))
    assert str(spec()) == "deduplicate by (id) ordered by _SEQUENCE_NUMBER"


def test_sequence_fields_come_before_the_sequence_number() -> None:
    merge = spec(sequence__field="seq,id", sequence__field__sort_order="descending", ignore_delete="true")

    assert merge == MergeSpec("deduplicate", ("id",), ("seq", "id"), descending=True, ignore_delete=True)
    assert merge.columns == ("id", "seq")
    assert str(merge) == ("deduplicate by (id) ordered by seq DESC, id DESC, _SEQUENCE_NUMBER, retractions ignored")


def test_first_row() -> None:
    assert spec(merge_engine="first-row") == MergeSpec("first-row", ("id",))
    with pytest.raises(InvalidArgument, match=r"^/t: merge-engine first-row does not go with .* 'sequence.field'"):
        spec(merge_engine="first-row", sequence__field="seq")


def test_a_sequence_field_that_is_no_column() -> None:
    with pytest.raises(ColumnNotFound, match="no column 'nope'"):
        spec(sequence__field="nope")


def test_a_sequence_field_that_has_no_order() -> None:
    with pytest.raises(InvalidArgument, match="the sequence field 'tags' has the type ARRAY<INT>, which cannot be"):
        spec(sequence__field="tags")


def test_a_spec_is_data() -> None:
    merge = spec(sequence__field="seq")
    assert pickle.loads(pickle.dumps(merge)) == merge
    assert hash(merge) == hash(spec(sequence__field="seq"))


@pytest.mark.parametrize("engine", ["partial-update", "aggregation"])
def test_an_engine_that_morrow_does_not_read_is_never_read_as_another(engine: str) -> None:
    with pytest.raises(Unsupported, match=f"^/t: the merge engine '{engine}' is not supported; Morrow reads dedup"):
        spec(merge_engine=engine)
