"""System tables from the metadata of tables that Java Paimon wrote have the same fields and rows as in Java."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.plan.time_travel import Travel
from morrow.readers.casts.dtypes import to_arrow_table
from morrow.readers.system.base import MetadataTable, TableState
from morrow.readers.system.files import FILES
from morrow.readers.system.registry import SYSTEM_TABLES
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.golden import jsonl

pytestmark = pytest.mark.golden

FOLLOWED = "public"
"""Tables written and read by 1.4.2."""

COMPARED = (FOLLOWED, "versions/2.0.0")
"""2.0.0 has more columns, and equal values in the common ones. Older versions show some values in another form."""

OF_THE_FILE_SYSTEM = {"branches": "create_time"}
"""A column from the time of a folder, which the archive does not keep."""

AN_ADDRESS = "[B@"
"""Java's text for bytes, which differs each time."""

MILLIS_TEXT = len("2026-11-20T23:43:25.367")

NAMES = [name for name, table in SYSTEM_TABLES.items() if isinstance(table, MetadataTable)]
OF_PAIMON_2_1 = ("file_indexes",)
"""System tables that the versions which made the golden tables lack."""


def dumps(root: Path, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each case with this system table, and the table's description."""
    for path in sorted(path for set_ in COMPARED for path in root.glob(f"{set_}/*/case.json")):
        for table in json.loads(path.read_text()).get("system_tables", ()):
            if table["name"] == name:
                yield path.parent, table


def state_of(case: Path) -> TableState:
    store, folder = resolve(str(case / "warehouse" / "db.db" / "t"))
    return TableState(TableMetadata(store, folder))


def expected(case: Path, dump: dict[str, Any], root: Path) -> list[list[Any]]:
    """Return Java's rows with this machine's paths, and with times in the precision of their type."""
    place = f"file:{root / case.relative_to(root).parent}"
    times = [i for i, (_, _, kind) in enumerate(dump["fields"]) if kind.startswith("TIMESTAMP(3)")]
    rows = [[_placed(value, place) for value in row] for row in jsonl(case / dump["file"])]
    for row in rows:
        for i in times:
            row[i] = row[i] and row[i][:MILLIS_TEXT] + "000"
    return rows


def _placed(value: Any, place: str) -> Any:
    return value.replace("file:{root}", place).removeprefix("file:") if isinstance(value, str) else value


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OF_PAIMON_2_1])
def test_fields_and_rows_are_those_of_java(name: str, golden_root: Path) -> None:
    table = SYSTEM_TABLES[name]
    assert isinstance(table, MetadataTable)
    compared = 0
    for case, dump in dumps(golden_root, name):
        state = state_of(case)
        fields = {field.name: field for field in table.fields(state)}
        if case.parent.name == FOLLOWED:
            shown = [[field.id, field.name, str(field.type)] for field in fields.values()]
            assert shown[: len(dump["fields"])] == dump["fields"], case  # 2.0 appends columns

        rows = expected(case, dump, golden_root)
        left_out = {OF_THE_FILE_SYSTEM.get(name)}
        shown = [
            i
            for i, (_, column, _) in enumerate(dump["fields"])
            if column in fields.keys() - left_out and not any(AN_ADDRESS in str(row[i]) for row in rows)
        ]
        columns = [fields[dump["fields"][i][1]] for i in shown]
        actual = to_arrow_table(table.rows(state, [field.name for field in columns]), columns)
        assert_same_rows(rows_of(actual, columns), [[row[i] for i in shown] for row in rows], columns)
        compared += 1
    assert compared


def test_statistics_are_in_the_columns_of_the_snapshot_that_is_read(golden_root: Path) -> None:
    """A column that was added later is null in all rows of older files, so its null count is their row count."""
    state = state_of(golden_root / "public" / "system_tables_pk")
    rows = FILES.rows(state, ["record_count", "null_value_counts"]).to_dicts()
    assert all(row["null_value_counts"].endswith(f"zz={row['record_count']}}}") for row in rows)


def test_tables_about_a_snapshot_travel(golden_root: Path) -> None:
    newest = state_of(golden_root / "public" / "system_tables_pk")
    first = TableState(newest.metadata, Travel(snapshot=1))
    for name in NAMES:
        table = SYSTEM_TABLES[name]
        assert isinstance(table, MetadataTable)
        same = table.rows(newest).equals(table.rows(first))
        assert not (same and table.travels and table.rows(newest).height), name
        assert same or table.travels, name
