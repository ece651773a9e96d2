"""``$audit_log``, ``$binlog``, ``$ro`` and ``$row_tracking`` of tables by Java Paimon have the rows that Java reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import morrow
from morrow.engine.format.types import DataField
from morrow.readers.system.base import TableState
from morrow.readers.system.registry import find_system_table
from tests.support.canonical import assert_same_rows, normal_rows, rows_of
from tests.support.golden import jsonl

pytestmark = pytest.mark.golden

LED_BY_KIND = ("audit_log", "binlog")
"""Tables whose golden lines begin with the kind that Java's reader gives to the row itself, which is always +I."""


def dumps(root: Path, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each case with this system table, and the table's description."""
    for path in sorted(root.glob("*/*/case.json")) + sorted(root.glob("versions/*/*/case.json")):
        for table in json.loads(path.read_text()).get("system_tables", ()):
            if table["name"] == name and "file" in table:
                yield path.parent, table


def opened(case: Path) -> morrow.Table:
    return morrow.open(case / "warehouse" / "db.db" / "t")


def fields_of(table: morrow.Table, name: str) -> tuple[DataField, ...]:
    return find_system_table(name).fields(TableState(table._metadata))


def expected(case: Path, dump: dict[str, Any], fields: tuple[DataField, ...]) -> list[list[Any]]:
    lines = jsonl(case / dump["file"])
    if dump["name"] in LED_BY_KIND:
        assert {line[0] for line in lines} <= {"+I"}
        lines = [line[1:] for line in lines]
    return normal_rows(lines, fields)


def in_duckdb(scan: Any) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return scan.to_duckdb(connection).to_arrow_table()


@pytest.mark.parametrize(("name", "cases"), [("audit_log", 18), ("binlog", 14), ("ro", 14), ("row_tracking", 2)])
def test_rows_are_those_of_java(name: str, cases: int, golden_root: Path) -> None:
    found = list(dumps(golden_root, name))
    assert len(found) >= cases
    for case, dump in found:
        table = opened(case)
        fields = fields_of(table, name)
        if case.parent.name == "public":  # older versions differ in ids and nullability
            assert [[f.id, f.name, str(f.type)] for f in fields] == dump["fields"], case
        assert [f.name for f in fields] == [name for _, name, _ in dump["fields"]]
        rows = expected(case, dump, fields)
        scan = table.system(name)
        assert_same_rows(rows_of(scan.to_arrow(), fields), rows, fields)
        assert scan.count() == len(rows)
        if case != found[0][0]:
            continue
        for other in (scan.to_polars().to_arrow(), pa.table(scan), in_duckdb(scan), scan.lazy().collect().to_arrow()):
            assert_same_rows(rows_of(other, fields), rows, fields)
