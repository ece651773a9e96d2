"""Remedies that refusals recommend are accepted by the table that refused, and have the desired effect."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import morrow
from morrow.engine.errors import MorrowError
from tests.support.written import new_table, rows

Call = Callable[[morrow.Table], object]


class Remedy(NamedTuple):
    """A refused call, words of its error, and the call that the error recommends."""

    refused: Call
    says: str
    then: Call


def lives_on(table: morrow.Table) -> morrow.Table:
    """Write key 1 twice."""
    table.upsert({"id": [1], "v": [1]})
    table.upsert({"id": [1], "v": [2]})
    return table


def followed(producer: str) -> Call:
    def then(table: morrow.Table) -> object:
        table.alter.set_options({"changelog-producer": producer})
        return list(table.stream(wait=0))

    return then


def with_option(option: str, call: Call) -> Call:
    def then(table: morrow.Table) -> object:
        table.alter.set_options({option: True})
        return call(table)

    return then


def deletes(table: morrow.Table) -> object:
    return table.delete("id = 1")


def retracts(table: morrow.Table) -> object:
    return table.upsert({"id": [1], "v": [2], "kind": ["-D"]}, kinds="kind")


def follows(table: morrow.Table) -> object:
    return list(table.stream(wait=0))


def overwrites(table: morrow.Table) -> object:
    return table.overwrite(table.scan(filter="id <> 1"))


def raw(table: morrow.Table) -> object:
    return table.changes(mode="raw").to_arrow()


def compared(table: morrow.Table) -> object:
    return table.changes(1, 2, mode="diff").to_arrow()


def sets_key(table: morrow.Table) -> object:
    return table.update({"id": 2}, "id = 1")


def inserts_another(table: morrow.Table) -> object:
    table.delete("id = 1")
    return table.upsert({"id": [2], "v": [2]})


def sets_back(table: morrow.Table) -> object:
    return table.update({"v": 0}, "id = 1")


VECTORS: dict[str, object] = {"deletion-vectors.enabled": True}
PARTIAL: dict[str, object] = {"merge-engine": "partial-update"}
SUMS: dict[str, object] = {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"}
FIRST: dict[str, object] = {"merge-engine": "first-row"}
BOTH = "set 'changelog-producer' to lookup or full-compaction"
ALONE = "set 'changelog-producer' to lookup, compare"
REMOVES = "partial-update.remove-record-on-delete"
CASES: list[tuple[Mapping[str, object], Remedy]] = [
    *((PARTIAL, Remedy(follows, BOTH, followed(producer))) for producer in ("lookup", "full-compaction")),
    *((engine, Remedy(follows, ALONE, followed("lookup"))) for engine in (FIRST, PARTIAL | VECTORS, SUMS | VECTORS)),
    *((engine, Remedy(follows, "mode raw", raw)) for engine in (PARTIAL, SUMS, FIRST)),
    *((engine, Remedy(follows, "mode diff", compared)) for engine in (PARTIAL, SUMS, FIRST)),
    *((PARTIAL | more, Remedy(deletes, f"set {REMOVES}", with_option(REMOVES, deletes))) for more in ({}, VECTORS)),
    (SUMS, Remedy(deletes, "overwrite the table with the rows that stay", overwrites)),
    (FIRST, Remedy(deletes, "or overwrite", overwrites)),
    *(
        (engine, Remedy(retracts, "ignore-delete", with_option("ignore-delete", retracts)))
        for engine in (PARTIAL, FIRST)
    ),
    *((more, Remedy(sets_key, "delete the row and insert another", inserts_another)) for more in ({}, VECTORS)),
    (PARTIAL, Remedy(sets_key, "overwrite the table", overwrites)),
    ({"ignore-delete": True}, Remedy(sets_key, "overwrite the table", overwrites)),
    ({"sequence.field": "v"}, Remedy(sets_back, "overwrite the table", overwrites)),
]


@pytest.mark.parametrize(("options", "remedy"), CASES, ids=map(str, itertools.count()))
def test_what_a_refusal_recommends(tmp_path: Path, options: Mapping[str, object], remedy: Remedy) -> None:
    table = lives_on(new_table(tmp_path, "id INT, v INT", keys=["id"], options={"bucket": 1, **options}))
    with pytest.raises(MorrowError, match=re.escape(remedy.says)):
        remedy.refused(table)
    remedy.then(table)
    rows(table)


TYPES: dict[str, tuple[str, Any]] = {
    "v": ("STRING", "abc"),
    "v.x": ("ROW<x STRING>", {"x": "abc"}),
    "v.element": ("ARRAY<VARCHAR(3)>", ["abc"]),
    "v.value": ("MAP<INT, STRING>", [(1, "abc")]),
}


@pytest.mark.parametrize("column", TYPES)
def test_a_type_that_values_do_not_survive_is_set_back_as_the_read_says(tmp_path: Path, column: str) -> None:
    kind, value = TYPES[column]
    table = new_table(tmp_path, f"id INT, v {kind}")
    table.append([{"id": 1, "v": value}])
    before = rows(table)
    table.alter.set_type(column, "INT")
    with pytest.raises(MorrowError) as caught:
        table.to_arrow()
    advice = re.search(r"table\.alter\.set_type\('(.*)', '(.*)'\)", str(caught.value))
    assert advice is not None
    assert any(advice[0].removeprefix("table") in str(finding) for finding in table.doctor(data=True).findings)
    table.alter.set_type(advice[1], advice[2])
    assert rows(table) == before
