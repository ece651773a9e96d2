"""Random operations on a table: its rows equal a dict to which the same operations are applied.

Models name the columns ``id``, ``a`` and ``b``; in the tables they have hostile names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import morrow
from tests.support.hostile_names import in_avro, in_options, quoted, renamings
from tests.support.written import rows

Row = tuple[int, int | None, int | None]
Model = dict[int, tuple[int | None, int | None]]
Names = Mapping[str, str]
"""Maps `COLUMNS` to the table's column names."""
DELETES = {"partial-update.remove-record-on-delete": True, "aggregation.remove-record-on-delete": True}
COLUMNS = ["id", "a", "b"]

values = st.integers(0, 9) | st.none()
some_rows = st.lists(st.tuples(st.integers(0, 7), values, values), min_size=1, max_size=6)
operations = st.one_of(
    st.tuples(st.just("write"), some_rows),
    st.tuples(st.just("write"), some_rows),
    st.tuples(st.just("delete keys"), st.lists(st.integers(0, 7), min_size=1, max_size=3)),
    st.tuples(st.just("delete where"), st.integers(0, 9)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("merge"), some_rows),
    st.tuples(st.just("overwrite"), some_rows),
    st.tuples(st.just("compact"), st.booleans()),
)


def _replace(_old: Any, new: Any) -> Any:
    return new


def _not_null(old: Any, new: Any) -> Any:
    return tuple(o if n is None else n for o, n in zip(old, new))


def _sum(old: Any, new: Any) -> Any:
    return tuple(o if n is None else n if o is None else o + n for o, n in zip(old, new))


def _keep(old: Any, _new: Any) -> Any:
    return old


ENGINES: dict[str, tuple[dict[str, Any], Callable[[Any, Any], Any], frozenset[str]]] = {
    "deduplicate": ({}, _replace, frozenset()),
    "partial-update": (DELETES, _not_null, frozenset({"merge", "update"})),
    "aggregation": ({**DELETES, "fields.default-aggregate-function": "sum"}, _sum, frozenset({"update", "merge"})),
    "first-row": ({}, _keep, frozenset({"delete keys", "delete where", "update", "merge"})),
}
BUCKETS: dict[str, dict[str, Any]] = {
    "one": {"bucket": 1},
    "fixed": {"bucket": 3},
    "dynamic": {"bucket": -1, "dynamic-bucket.target-row-num": 3},
    "postpone": {"bucket": -2},
    "vectors": {"bucket": 2, "deletion-vectors.enabled": True},
    "lookup": {"bucket": 1, "changelog-producer": "lookup"},
    "avro": {"bucket": 1, "file.format": "avro", "num-sorted-run.compaction-trigger": 2},
}


# Paimon does not support first-row tables with deletion vectors.
CASES = [(engine, bucket) for engine in ENGINES for bucket in BUCKETS if (engine, bucket) != ("first-row", "vectors")]


@pytest.mark.parametrize(("engine", "bucket"), CASES)
@settings(max_examples=max(settings().max_examples // 15, 1))
@given(steps=st.lists(operations, min_size=1, max_size=6), data=st.data())
def test_keyed_tables(
    tmp_path_factory: pytest.TempPathFactory,
    engine: str,
    bucket: str,
    steps: list[tuple[str, Any]],
    data: st.DataObject,
) -> None:
    options, merge, refused = ENGINES[engine]
    chosen = {"merge-engine": engine, **options, **BUCKETS[bucket]}
    names = data.draw(renamings(COLUMNS, in_avro if "file.format" in chosen else bool))
    table = _new_table(tmp_path_factory.mktemp("w"), names, keys=["id"], options=chosen)
    model: Model = {}
    for name, argument in steps:
        if name in refused:
            continue
        _apply(table, names, name, _once(argument) if name == "merge" else argument)
        if bucket == "postpone":
            table.compact()
        _to_model(model, name, argument, merge)
        assert rows(table) == sorted(((k, *v) for k, v in model.items()), key=lambda row: row[0])


def _new_table(folder: Path, names: Names, keys: list[str], options: Mapping[str, Any]) -> morrow.Table:
    schema = {names[column]: "INT" for column in COLUMNS}
    return morrow.Catalog(folder).create_table(
        "db.t", schema=schema, primary_keys=[names[key] for key in keys], options=options
    )


def _apply(table: morrow.Table, names: Names, name: str, argument: Any) -> None:
    id, a, b = names.values()
    if name == "write":
        table.append(_data(names, argument))
    elif name == "delete keys":
        table.delete({id: argument})
    elif name == "delete where":
        table.delete(f"{quoted(a)} >= {argument}")
    elif name == "update":
        table.update({b: f"coalesce({quoted(b)}, 0) + 1"}, f"{quoted(a)} < {argument}")
    elif name == "merge":
        merge = table.merge(_data(names, argument), on=id)
        merge.when_matched_update({a: f"source.{quoted(a)}"}).when_not_matched_insert().execute()
    elif name == "overwrite":
        table.overwrite(_data(names, argument))
    else:
        table.compact(full=argument)


def _to_model(model: Model, name: str, argument: Any, merge: Callable[[Any, Any], Any]) -> None:
    if name == "overwrite":
        model.clear()
    if name in ("write", "overwrite"):
        for key, *new in argument:
            model[key] = merge(model[key], tuple(new)) if key in model else tuple(new)
    elif name == "delete keys":
        for key in argument:
            model.pop(key, None)
    elif name == "delete where":
        for key in [key for key, (a, _) in model.items() if a is not None and a >= argument]:
            del model[key]
    elif name == "update":
        for key, (a, b) in model.items():
            if a is not None and a < argument:
                model[key] = (a, (b or 0) + 1)
    elif name == "merge":
        for key, a, b in _once(argument):
            model[key] = (a, model[key][1]) if key in model else (a, b)


def _once(given: list[Row]) -> list[Row]:
    return list({row[0]: row for row in given}.values())


def _data(names: Names, given: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in given] for i, name in enumerate(names.values())}


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("bucket", [-1, 2])
@settings(max_examples=max(settings().max_examples // 10, 1))
@given(steps=st.lists(operations, min_size=1, max_size=6), names=renamings(COLUMNS, in_options))
def test_append_tables(
    tmp_path_factory: pytest.TempPathFactory, vectors: bool, bucket: int, steps: list[tuple[str, Any]], names: Names
) -> None:
    options = {"bucket": bucket, "deletion-vectors.enabled": vectors}
    if bucket > 0:
        options["bucket-key"] = names["id"]
    table = _new_table(tmp_path_factory.mktemp("w"), names, keys=[], options=options)
    expected: list[Row] = []
    for name, argument in steps:
        if name == "delete keys":
            continue
        given = [(key, a, None) for key, a, _ in _once(argument)] if name == "merge" else argument
        _apply(table, names, name, given)
        if name == "write":
            expected += argument
        elif name == "overwrite":
            expected = list(argument)
        elif name == "delete where":
            expected = [row for row in expected if row[1] is None or row[1] < argument]
        elif name == "update":
            expected = [
                (key, a, (b or 0) + 1) if a is not None and a < argument else (key, a, b) for key, a, b in expected
            ]
        elif name == "merge":
            source = {key: a for key, a, _ in given}
            there = {key for key, _, _ in expected}
            expected = [(key, source.get(key, a), b) for key, a, b in expected]
            expected += [row for row in given if row[0] not in there]
        assert rows(table) == sorted(expected, key=lambda row: tuple((value is None, value) for value in row))
