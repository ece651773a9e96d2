"""Options of columns with dots: ``fields.x.y.aggregate-function`` is an option of the column ``x.y``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, Unsupported


@pytest.fixture
def warehouse(tmp_path: Path) -> morrow.Catalog:
    return morrow.Catalog(str(tmp_path))


def made(warehouse: morrow.Catalog, schema: str, **options: Any) -> morrow.Table:
    return warehouse.create_table(
        "db.t", schema=f"id INT NOT NULL, {schema}", primary_keys="id", options={"bucket": 1, **options}
    )


def test_functions_of_columns_with_dots(warehouse: morrow.Catalog) -> None:
    table = made(
        warehouse,
        "x INT, `x.y` INT, `x.y.z` ARRAY<ROW<k INT, v INT>>",
        **{
            "merge-engine": "aggregation",
            "fields.x.aggregate-function": "max",
            "fields.x.ignore-retract": "true",
            "fields.x.y.aggregate-function": "sum",
            "fields.x.y.ignore-retract": "true",
            "fields.x.y.z.aggregate-function": "nested_update",
            "fields.x.y.z.nested-key": "k",
        },
    )
    table.upsert({"id": [1], "x": [1], "x.y": [10], "x.y.z": [[{"k": 1, "v": 1}]]})
    table.upsert({"id": [1], "x": [0], "x.y": [32], "x.y.z": [[{"k": 1, "v": 2}, {"k": 2, "v": 3}]]})
    table.upsert({"id": [1], "x": [None], "x.y": [5], "x.y.z": [None]}, kinds="-D")

    expected = [(1, 1, 42, [{"k": 1, "v": 2}, {"k": 2, "v": 3}])]
    assert table.scan().to_polars().rows() == expected
    table.compact(full=True)
    assert table.scan().to_polars().rows() == expected


def test_sequence_groups_of_columns_with_dots(warehouse: morrow.Catalog) -> None:
    table = made(
        warehouse,
        "x INT, `x.y` INT, `a.b` STRING",
        **{"merge-engine": "partial-update", "fields.x.y.sequence-group": "a.b"},
    )
    table.upsert({"id": [1, 1], "x": [1, 2], "x.y": [5, 4], "a.b": ["newer", "older"]})

    assert table.scan().to_polars().rows() == [(1, 2, 5, "newer")]


def test_a_renamed_column_takes_its_options_along(warehouse: morrow.Catalog) -> None:
    table = made(
        warehouse, "x INT, `x.y` INT", **{"merge-engine": "aggregation", "fields.x.y.aggregate-function": "sum"}
    )
    with table.alter() as changes:
        changes.rename_column("x.y", "x.z")
    table.upsert({"id": [1], "x": [1], "x.z": [2]})
    table.upsert({"id": [1], "x": [1], "x.z": [3]})

    assert table.scan(columns=["x.z"]).to_polars().rows() == [(5,)]


def test_what_paimon_opens_not_is_not_made(warehouse: morrow.Catalog) -> None:
    options = {"merge-engine": "aggregation", "fields.x.y.aggregate-function": "sum"}

    with pytest.raises(Unsupported, match=r"'fields\.x\.y\.aggregate-function' of a column with a dot"):
        made(warehouse, "`x.y` INT", **options)
    with pytest.raises(InvalidArgument, match=r"names 'x\.y', which is not a column"):
        made(warehouse, "x ROW<y INT>", **options)
