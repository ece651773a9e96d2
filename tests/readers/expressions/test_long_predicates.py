"""Predicates that are too long for a scan are evaluated above it and keep the same rows."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from morrow import Catalog
from morrow.readers.execution.execute import to_lazy

LONG = range(400)
CONDITIONS = {
    " AND ".join(f"(id <> {i} OR s = 'k{i}')" for i in LONG): lambda i, s: i >= 400 or s == f"k{i}",
    " OR ".join(f"(id = {i} AND s = 'k{i}')" for i in LONG): lambda i, s: i < 400 and s == f"k{i}",
    " AND ".join(f"s NOT LIKE 'k{i}%'" for i in LONG): lambda _, s: not s.startswith("k"),
    " AND ".join(f"id > {i}" for i in LONG) + " AND upper(s) <> 'K500'": lambda i, s: i > 399 and s != "k500",
    f"id NOT IN ({', '.join(map(str, LONG))}) AND id < 900": lambda i, _: 400 <= i < 900,
}


def test_long_conditions_through_the_faces(tmp_path: Path) -> None:
    rows = pl.DataFrame({"id": range(1000), "s": [f"k{i}" if i % 2 else f"x{i}" for i in range(1000)]})
    kinds = {"append": ((), {}), "keyed": (("id",), {"bucket": "1"})}
    for name, (keys, options) in kinds.items():
        table = Catalog(tmp_path).create_table(
            f"db.{name}", schema="id BIGINT, s STRING", primary_keys=keys, options=options
        )
        for part in (rows[:600], rows[500:]) if keys else (rows,):
            table.append(part)
        for condition, holds in CONDITIONS.items():
            wanted = [i for i, s in rows.iter_rows() if holds(i, s)]
            scan = table.scan(["id"], filter=condition)
            assert sorted(scan.to_polars()["id"]) == wanted
            assert sorted(i for batch in scan.to_batches(100) for i in batch["id"].to_pylist()) == wanted
            assert scan.count() == len(wanted)


def test_the_first_conditions_reach_the_files(tmp_path: Path) -> None:
    table = Catalog(tmp_path).create_table("db.t", schema="id BIGINT, s STRING")
    table.append(pl.DataFrame({"id": [1, 2], "s": ["a", "b"]}))
    scan = table.scan(filter="id > 1 AND " + " AND ".join(f"s NOT LIKE 'k{i}%'" for i in LONG))
    plan = to_lazy(scan.plan, scan.store).explain()
    assert 'SELECTION: [(col("id") > 1)' in plan or 'col("id") > 1' in plan.split("SELECTION:")[1]
    assert "OPAQUE_PYTHON" in plan
