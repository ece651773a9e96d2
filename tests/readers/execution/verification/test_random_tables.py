"""Verification raises no false alarms for tables with odd values that Morrow wrote, compacted and changed."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import morrow
from tests.support.value_pools import POOLS

ODD: dict[str, list[Any]] = {
    "FLOAT": [math.nan, -0.0, 0.0, math.inf, -math.inf],
    "DOUBLE": [math.nan, -0.0, 0.0, math.inf, -math.inf, 5e-324],
    "STRING": [
        *(
            "x" * 40,
            "x" * 15 + "\U0010ffff" * 9,
            "\U0010ffff" * 20,
            "y" * 15 + "\ud7ff" * 3,
            "é" * 30,
            "a" * 2000,
            "\0" * 20,
        ),
        *("a" * 15 + "?", " ", "a  "),
    ],
    "CHAR(3)": ["a  ", "a\x01", "a", "   "],
    "TIMESTAMP(3)": [dt.datetime(1900, 1, 1), dt.datetime(2200, 12, 31, 23, 59, 59, 999000)],
    "DATE": [dt.date(1583, 1, 1), dt.date(2200, 10, 4)],
}
MODES = ("full", "counts", "none", "truncate(1)", "truncate(16)")
INDEXED = ("INT", "BIGINT", "STRING", "DATE", "DOUBLE", "FLOAT")
KEYS = ("INT", "BIGINT", "STRING", "DECIMAL(25, 3)", "DATE", "CHAR(3)", "BOOLEAN", "DOUBLE", "TIMESTAMP(3)", "BYTES")


def column(kind: str, rows: int, *, nulls: bool) -> st.SearchStrategy[list[Any]]:
    value = st.sampled_from([*POOLS[kind], *ODD.get(kind, [])])
    return st.lists(st.one_of(st.none(), value) if nulls else value, min_size=rows, max_size=rows)


def _after_1970(value: Any) -> Any:
    return value.replace(year=1999) if isinstance(value, dt.datetime) and value.year < 1971 else value


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    kinds = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=5))
    keys = draw(st.lists(st.sampled_from(KEYS), max_size=2))
    commits = []
    for _ in range(draw(st.integers(1, 3))):
        rows = draw(st.integers(1, 12))
        commits.append(
            [draw(column(kind, rows, nulls=False)) for kind in keys]
            + [draw(column(kind, rows, nulls=True)) for kind in kinds]
        )
    options = {"file.format": draw(st.sampled_from(("parquet", "orc", "avro"))), "bucket": "1" if keys else "-1"}
    if draw(st.booleans()):
        options["metadata.stats-mode"] = draw(st.sampled_from(MODES))
    if draw(st.booleans()) and kinds[0] in INDEXED:
        options["file-index.bloom-filter.columns"] = "v0"
    if (
        options["file.format"] == "orc"
    ):  # ORC changes fractions of seconds before 1970 and refuses values that it cannot hold
        commits = [[[_after_1970(value) for value in column] for column in columns] for columns in commits]
    return {"kinds": kinds, "keys": keys, "commits": commits, "options": options, "compact": draw(st.booleans())}


@settings(
    max_examples=max(settings().max_examples // 8, 3),
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(tables())
def test_sound(tmp_path_factory: Any, table: dict[str, Any]) -> None:
    folder: Path = tmp_path_factory.mktemp("t")
    catalog = morrow.Catalog(folder)
    catalog.create_database("db")
    names = [f"k{i}" for i in range(len(table["keys"]))] + [f"v{i}" for i in range(len(table["kinds"]))]
    kinds = [*table["keys"], *table["kinds"]]
    schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds))
    made = catalog.create_table(
        "db.t", schema=schema, primary_keys=names[: len(table["keys"])], options=table["options"]
    )
    for columns in table["commits"]:
        rows = pa.table([pa.array(values, field.type) for values, field in zip(columns, made.schema)], names=names)
        made.append(rows)
    if table["compact"]:
        made.compact(full=True)
    found = made.scan().verification()
    assert [(file.path, file.problems) for file in found.unsound] == []
