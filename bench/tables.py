"""The measured tables, written once to bench/.data and reused.

Merge-on-read tables look like tables between two compactions: a base at the top level, in several files of disjoint key
ranges, and overlapping updates at level 0. Tables with deletion vectors consist of the base with deleted rows. In
updates of partial-update and aggregation tables, alternating halves of the columns are null.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from bench import data, delta, written
from morrow.engine.format.buckets import compute_buckets
from morrow.engine.format.types import BigIntType
from morrow.engine.structs import replace
from tests.support.table_factory import DataFile, TableFactory

HOME = Path(__file__).parent / ".data"
GENERATION = 1
"""Increment when all tables are written differently, so that they are rewritten; `Spec.generation` is for one table."""

DELTA = "delta"
"""The folder, next to the warehouse, of the same files as a Delta table (`bench.delta`)."""

TOP_LEVEL = 5
ROW_GROUP = 250_000
CODEC = "snappy"  # of metadata; Paimon's default, zstd, takes as long to decode

PARTITIONS = 1_000
PARTITION = "p0500"
"""One of the partitions of the table `many_files`."""
BUCKETS, OLD_FILES, NEW_FILES = 10, 5, 5
"""Shape of each partition of `many_files`: buckets, and files per bucket at the top level and at level 0."""


@dataclass(frozen=True)
class Table:
    """A table on disk; `files` are its data files, `live_rows` the number of rows that a reader must return."""

    path: str
    warehouse: str
    files: tuple[str, ...]
    columns: tuple[str, ...]
    live_rows: int

    def beside(self, folder: str) -> str:
        """Return a folder next to the warehouse."""
        return str(Path(self.warehouse).parent / folder)


@dataclass(frozen=True)
class Merge:
    """The options of a merge engine. Update number i has nulls in the columns `halves[i % 2]`."""

    options: tuple[tuple[str, str], ...]
    halves: tuple[tuple[str, ...], tuple[str, ...]]


VALUES = tuple(name for name in data.fields(data.BIGINT_KEY) if name not in data.BIGINT_KEY)
HALVES = VALUES[::2], VALUES[1::2]
GROUPS = {"quantity": ("customer", "city", "amount"), "created": ("price", "paid")}
"""Sequence column -> the columns it guards. An update sets one group and leaves the other null."""
SPECIAL = {"amount": "sum", "quantity": "max", "created": "max"}
"""Aggregate functions of the aggregation table; the other columns have last_non_null_value."""

PARTIAL_UPDATE = Merge((("merge-engine", "partial-update"),), HALVES)
SEQUENCE_GROUPS = Merge(
    (
        ("merge-engine", "partial-update"),
        *((f"fields.{sequence}.sequence-group", ",".join(guarded)) for sequence, guarded in GROUPS.items()),
        ("fields.amount.aggregate-function", "sum"),
    ),
    (("quantity", *GROUPS["quantity"]), ("created", *GROUPS["created"])),
)
AGGREGATION = Merge(
    (
        ("merge-engine", "aggregation"),
        *((f"fields.{name}.aggregate-function", SPECIAL.get(name, "last_non_null_value")) for name in VALUES),
    ),
    HALVES,
)


@dataclass(frozen=True)
class Spec:
    """The specification of a table; `dead` is the share of rows deleted by deletion vectors.

    `new` is the share of an update's keys that the base lacks. Without `merge` the merge engine is deduplicate. Each of
    the `files` and `updates` is one file in every bucket; several buckets need the key `id`.
    """

    rows: int = 2_000_000
    files: int = 2
    updates: int = 0
    update_rows: int = 100_000
    key: tuple[str, ...] = data.BIGINT_KEY
    format: str = "parquet"
    dead: float = 0.0
    new: float = 0.2
    merge: Merge | None = None
    buckets: int = 1
    generation: int = GENERATION

    def scaled(self, divisor: int) -> Spec:
        return replace(self, rows=self.rows // divisor, update_rows=self.update_rows // divisor)

    @property
    def options(self) -> dict[str, str]:
        vectors = {"deletion-vectors.enabled": "true"} if self.dead else {}
        return {
            "file.format": self.format,
            "bucket": str(self.buckets) if self.key else "-1",
            **vectors,
            **dict(self.merge.options if self.merge else ()),
        }

    def update(self, number: int) -> tuple[data.Ids, pl.DataFrame]:
        """Return the ids and rows of an update."""
        ids = data.update_ids(self.rows, self.update_rows, seed=number, new=self.new)
        rows = data.rows(ids, self.key, seed=100 + number)
        return ids, data.without(rows, self.merge.halves[number % 2]) if self.merge else rows


CURVE_ROWS = 1_000_000
UPDATED_KEYS = (1_000, 10_000, 100_000, 500_000, CURVE_ROWS)
OVERLAPPING_FILES = (1, 2, 5, 10, 20, 50)
CURVE = Spec(rows=CURVE_ROWS, updates=1, new=0, merge=PARTIAL_UPDATE)
"""A base whose updates only contain existing keys: one update of a varying number of keys, or a varying number of
updates of 20,000 keys."""


MILLION = 1_000_000
SPARK_SIZES = (2, 5, 10, 20, 40)
"""Sizes of the growing tables, in millions of rows."""
SPARK = Spec(buckets=4, updates=5)
"""A table for engines that read buckets in parallel: files of up to a million rows, updates of 5 % of the keys each."""


def _spark(millions: int, **more: Any) -> Spec:
    rows = millions * MILLION
    return replace(SPARK, rows=rows, files=-(-millions // SPARK.buckets), update_rows=rows // 20, **more)


SPECS = {
    "bigint": Spec(updates=5),
    "composite": Spec(updates=5, key=data.COMPOSITE_KEY),
    "orc": Spec(updates=5, format="orc"),
    "dv10": Spec(dead=0.1, generation=2),
    "dv50": Spec(dead=0.5, generation=2),
    "append": Spec(key=()),
    **dict.fromkeys(written.WRITERS, Spec(updates=5)),
    "big_merged": Spec(rows=20_000_000, files=20, updates=5, update_rows=1_000_000),
    "big_dv": Spec(rows=20_000_000, files=20, dead=0.1),
    "lookups": Spec(rows=20_000_000, files=5, updates=3, buckets=4),
    "small": Spec(rows=1_000, files=1, updates=2, update_rows=100),
    "partial_update": Spec(updates=5, merge=PARTIAL_UPDATE),
    "sequence_groups": Spec(updates=5, merge=SEQUENCE_GROUPS),
    "aggregation": Spec(updates=5, merge=AGGREGATION),
    **{f"spark_{millions}": _spark(millions) for millions in SPARK_SIZES},
    "spark_20_partial_update": _spark(20, merge=PARTIAL_UPDATE),
    "spark_20_dv10": _spark(20, updates=0, dead=0.1),
    **{f"updated_{keys}": replace(CURVE, update_rows=keys) for keys in UPDATED_KEYS},
    **{f"overlapping_{files}": replace(CURVE, updates=files, update_rows=20_000) for files in OVERLAPPING_FILES},
}
"""Name -> table, except `many_files`, which contains no rows."""

QUICK_DIVISOR = 10
"""Divisor of the number of rows in `make bench-quick`, except for `small` and `many_files`."""


def make(name: str, *, quick: bool = False) -> Table:
    """Return the table of this name, written first if it does not exist."""
    home = HOME / ("quick" if quick else "full") / name
    about = home / "about.json"
    generation = SPECS[name].generation if name in SPECS else GENERATION
    if not about.exists() or json.loads(about.read_text())["generation"] != generation:
        print(f"\nwriting the table {name}", flush=True)
        shutil.rmtree(home, ignore_errors=True)
        path = home / "warehouse" / "db.db" / "t"
        live_rows = _writer(name, QUICK_DIVISOR if quick else 1)(path)
        about.write_text(json.dumps({"generation": generation, "live_rows": live_rows}))
    return _found(home, json.loads(about.read_text())["live_rows"])


def _writer(name: str, divisor: int) -> Callable[[Path], int]:
    if name == "many_files":
        return lambda path: write_many_files(path, PARTITIONS, BUCKETS)
    spec = SPECS[name] if name == "small" else SPECS[name].scaled(divisor)
    if name in written.WRITERS:
        return lambda path: write_by(name, spec, path)
    return lambda path: write(spec, path)


def _found(home: Path, live_rows: int) -> Table:
    path = home / "warehouse" / "db.db" / "t"
    schema = json.loads((path / "schema" / "schema-0").read_text())
    files = tuple(str(file) for file in sorted(path.glob("bucket-*/data-*")))
    columns = tuple(field["name"] for field in schema["fields"])
    return Table(str(path), str(home / "warehouse"), files, columns, live_rows)


def write(spec: Spec, path: Path) -> int:
    """Write the table; return the number of live rows."""
    fields = list(data.fields(spec.key).items())
    table = TableFactory(path, fields, primary_keys=spec.key, options=spec.options, manifest_codec=CODEC)
    updates, marked = [], []
    for index in range(spec.files):
        each = spec.rows // spec.files
        ids = data.base_ids(index * each, each)
        random = np.random.default_rng(index)
        rows = data.rows(ids, spec.key, seed=index)
        for file in _write_files(table, spec, rows, level=TOP_LEVEL if spec.key else 0):
            if spec.dead:
                dead = np.flatnonzero(random.random(file.rows) < spec.dead).tolist()
                table.deletion_vector(file, dead)
                marked.append((table.folder((), file.bucket) / file.name, file.rows, dead))
    table.commit("COMPACT" if spec.key else "APPEND")
    for index in range(spec.updates):
        ids, rows = spec.update(index)
        _write_files(table, spec, rows, level=0)
        updates.append(ids)
        table.commit()
    if marked:
        delta.write(path.parents[2] / DELTA, dict(fields), marked)
    base = spec.rows // spec.files * spec.files
    return base + data.new_ids(updates) - sum(len(dead) for _, _, dead in marked)


def write_by(name: str, spec: Spec, path: Path) -> int:
    """Write the base and the updates by one of `written.WRITERS`, one commit each; return the number of live rows."""
    base = data.base_ids(0, spec.rows)
    updates = [spec.update(number) for number in range(spec.updates)]
    written.WRITERS[name](path.parents[1], [data.rows(base, spec.key, seed=0), *(rows for _, rows in updates)])
    return len(base) + data.new_ids([ids for ids, _ in updates])


def _write_files(table: TableFactory, spec: Spec, rows: pl.DataFrame, *, level: int) -> list[DataFile]:
    """Write one file of the rows in each bucket."""
    buckets = compute_buckets([rows["id"]], [BigIntType()], spec.buckets) if spec.buckets > 1 else np.zeros(rows.height)
    return [
        table.write_file(
            rows.filter(buckets == bucket).to_arrow(),
            bucket=bucket,
            level=level,
            format=spec.format,
            row_group_size=ROW_GROUP,
            presorted=True,
        )
        for bucket in range(spec.buckets)
    ]


def write_many_files(path: Path, partitions: int, buckets: int) -> int:
    """Write metadata of `partitions` x `buckets` x 10 files that do not exist; return 0 rows.

    Files of the top level divide the keys of their bucket, files of level 0 overlap all of them.
    """
    columns = [("dt", "STRING"), *data.fields(data.BIGINT_KEY).items()]
    table = TableFactory(path, columns, ["dt", "id"], ["dt"], {"bucket": str(buckets)}, manifest_codec=CODEC)
    each = OLD_FILES + NEW_FILES
    count = partitions * buckets * each
    slot = np.arange(count) % each
    first = np.where(slot < OLD_FILES, slot * 1_000, 0)
    last = np.where(slot < OLD_FILES, first + 999, OLD_FILES * 1_000)
    names = [f"p{partition:04d}" for partition in range(partitions) for _ in range(buckets * each)]

    def bounds(ids: data.Ids) -> pa.Table:
        rows = data.rows(ids, data.BIGINT_KEY, seed=1).to_arrow()
        return rows.add_column(0, "dt", pa.array(names))

    table.fake_files(
        bounds(first),
        bounds(last),
        partitions=[{"dt": name} for name in names],
        buckets=np.arange(count) // each % buckets,
        levels=np.where(slot < OLD_FILES, TOP_LEVEL, 0),
    )
    table.commit(entries_per_manifest=25_000)
    return 0
