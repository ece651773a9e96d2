"""Tables with global indexes, which pypaimon 2.1 and Java wrote: `tests/golden/indexes.tar.xz`.

`db.db` has tables of pypaimon: `btree` and `bitmap` with an index on each column, `partitioned`, and `search` with
indexes of vectors and texts, each with rows that were appended later. `expected.json` has the rows that pypaimon read,
and the results of its searches. `default.db` has keyed tables of Java.
"""

from __future__ import annotations

import random
import tarfile
from pathlib import Path

import polars as pl

import morrow
from morrow.engine.format.sorted_indexes import BitmapFile, BTreeFile, open_index_file
from morrow.engine.format.types import DataField
from morrow.engine.plan.manifests import read_index_entries

ARCHIVE = Path(__file__).parents[1] / "golden/indexes.tar.xz"
OPTIONS = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
TEXTS = ("a", "ab", "ü", "zé", "x\U0001f600", "")


def unpack(folder: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


def open_files(table: morrow.Table) -> list[tuple[DataField, range, bytes | None, BTreeFile | BitmapFile]]:
    """Return the column, row ids, metadata and reader of each index file of a table."""
    metadata = table._metadata
    snapshot = metadata.latest_snapshot()
    assert snapshot is not None
    entries = read_index_entries(metadata, snapshot)
    assert entries is not None
    fields = {field.id: field for field in metadata.latest_schema().fields}
    found = []
    for entry in entries.iter_rows(named=True):
        about = entry["_GLOBAL_INDEX"]
        ids = range(about["_ROW_RANGE_START"], about["_ROW_RANGE_END"] + 1)
        path = metadata.paths.index(entry["_FILE_NAME"])
        file = open_index_file(entry["_INDEX_TYPE"], metadata.store, path, entry["_FILE_SIZE"], len(ids))
        found.append((fields[about["_INDEX_FIELD_ID"]], ids, about["_INDEX_META"], file))
    return found


def draw_filter(rows: pl.DataFrame, seed: int) -> str:
    """Return a random condition on the columns of `rows`, with values that occur in it."""
    draw = random.Random(seed)

    def value(column: str) -> str:
        found = draw.choice(rows[column].drop_nulls().to_list())
        if isinstance(found, (str, bool, int)):
            return repr(found) if isinstance(found, str) else str(found)
        return f"'{found}'::DOUBLE" if isinstance(found, float) else f"CAST('{found}' AS {KINDS.get(column, 'DATE')})"

    def leaf() -> str:
        column = draw.choice([name for name in rows.columns if name != "p"])
        forms = [
            *(f"{column} {op} {value(column)}" for op in ("=", "<", "<=", ">", ">=", "!=")),
            f"{column} IN ({value(column)}, {value(column)})",
            f"{column} IS {draw.choice(['', 'NOT '])}NULL",
            f"s LIKE '{draw.choice(TEXTS)}%'",
            f"NOT ({column} BETWEEN {value(column)} AND {value(column)})",
        ]
        return draw.choice(forms)

    def tree(depth: int) -> str:
        if not depth or draw.random() < 0.4:
            return leaf()
        return f"({draw.choice([' AND ', ' OR ']).join(tree(depth - 1) for _ in range(2))})"

    return tree(2)


KINDS = {"ts": "TIMESTAMP", "amount": "DECIMAL(10, 2)", "big": "DECIMAL(30, 4)"}
