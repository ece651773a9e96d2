"""Predicates of pypaimon keep the rows that they keep there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow.compat.pypaimon as pypaimon
from morrow.compat.pypaimon import CatalogFactory, PredicateBuilder
from morrow.engine.errors import InvalidArgument
from tests.compat.pypaimon.tables import make, read

NAMES = ["apple", None, "a%b", "b", ""]
METHODS: dict[str, tuple[Callable[[PredicateBuilder], Any], Callable[[str], bool]]] = {
    "equal": (lambda b: b.equal("name", "b"), lambda n: n == "b"),
    "not_equal": (lambda b: b.not_equal("name", "b"), lambda n: n != "b"),
    "less_than": (lambda b: b.less_than("name", "apple"), lambda n: n < "apple"),
    "less_or_equal": (lambda b: b.less_or_equal("name", "apple"), lambda n: n <= "apple"),
    "greater_than": (lambda b: b.greater_than("name", "apple"), lambda n: n > "apple"),
    "greater_or_equal": (lambda b: b.greater_or_equal("name", "apple"), lambda n: n >= "apple"),
    "is_not_null": (lambda b: b.is_not_null("name"), lambda _: True),
    "startswith": (lambda b: b.startswith("name", "a"), lambda n: n.startswith("a")),
    "endswith": (lambda b: b.endswith("name", "b"), lambda n: n.endswith("b")),
    "contains": (lambda b: b.contains("name", "%"), lambda n: "%" in n),
    "like": (lambda b: b.like("name", "a%"), lambda n: n.startswith("a")),
    "like _": (lambda b: b.like("name", "_"), lambda n: len(n) == 1),
    "like escaped": (lambda b: b.like("name", "a\\%b"), lambda n: n == "a%b"),
    "is_in": (lambda b: b.is_in("name", ["b", "", None]), lambda n: n in ("b", "")),
    "is_in nothing": (lambda b: b.is_in("name", []), lambda _: False),
    "is_not_in": (lambda b: b.is_not_in("name", ["b"]), lambda n: n != "b"),
    "is_not_in null": (lambda b: b.is_not_in("name", ["b", None]), lambda _: False),
    "between": (lambda b: b.between("name", "a", "b"), lambda n: "a" <= n <= "b"),
    "not_between": (lambda b: b.not_between("name", "a", "b"), lambda n: not "a" <= n <= "b"),
}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> pypaimon.FileStoreTable:
    made = CatalogFactory.create({"warehouse": str(tmp_path_factory.mktemp("named"))})
    made.create_database("db", False)
    return make(made, rows=pa.table({"id": list(range(len(NAMES))), "name": NAMES}))


def matching(table: pypaimon.FileStoreTable, predicate: Any) -> list[str | None]:
    return [row["name"] for row in read(table, lambda builder: builder.with_filter(predicate))]


@pytest.mark.parametrize("method", METHODS)
def test_predicates_keep_what_pypaimon_keeps(named: pypaimon.FileStoreTable, method: str) -> None:
    build, keeps = METHODS[method]
    predicate = build(named.new_read_builder().new_predicate_builder())
    assert matching(named, predicate) == [name for name in NAMES if name is not None and keeps(name)]


def test_nulls_are_found(named: pypaimon.FileStoreTable) -> None:
    builder = named.new_read_builder().new_predicate_builder()
    assert matching(named, builder.is_null("name")) == [None]
    assert matching(named, builder.equal("name", None)) == []
    assert matching(named, None) == NAMES


trees = st.recursive(
    st.sampled_from(sorted(METHODS)),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1)),
)


@settings(max_examples=settings().max_examples // 2)
@given(tree=trees)
def test_combined_predicates(named: pypaimon.FileStoreTable, tree: Any) -> None:
    builder = named.new_read_builder().new_predicate_builder()

    def build(tree: Any) -> Any:
        if isinstance(tree, str):
            return METHODS[tree][0](builder)
        return (builder.and_predicates if tree[0] == "and" else builder.or_predicates)(list(map(build, tree[1])))

    def keeps(tree: Any, name: str) -> bool:
        if isinstance(tree, str):
            return METHODS[tree][1](name)
        return (all if tree[0] == "and" else any)(keeps(each, name) for each in tree[1])

    assert matching(named, build(tree)) == [name for name in NAMES if name is not None and keeps(tree, name)]


def test_wrong_predicates(named: pypaimon.FileStoreTable) -> None:
    builder = named.new_read_builder().new_predicate_builder()
    assert builder.and_predicates([]) is None
    with pytest.raises(ValueError, match="The field none is not in field list"):
        builder.equal("none", 1)
    with pytest.raises(InvalidArgument, match="double it"):
        matching(named, builder.like("name", "a\\b"))
    with pytest.raises(InvalidArgument, match="choose one of"):
        matching(named, pypaimon.Predicate("near", 0, "name", ["x"]))
