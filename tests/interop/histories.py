"""Random histories of one table: writes, deletes, compactions and schema changes, in canonical values.

The columns are named ``id``, ``region``, ``amount``... here; in the table they have hostile names (`Case.names`).

A history does not say which engine executes it: Morrow and Java Paimon both play steps of it. `Model` computes the
rows after each step with the row-wise oracle.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from tests.oracle import File, Record, Row, read_bucket
from tests.support.golden_values import parsed, shown
from tests.support.hostile_names import drawn_names, in_avro, in_options, in_orc, renamed_options

KEYS = 40
TOP_LEVEL = 5
REGIONS = ("eu", "us", "p q")
VALUES = (
    *(("amount", "BIGINT"), ("text", "STRING"), ("price", "DECIMAL(10, 2)"), ("version", "INT")),
    ("at", "TIMESTAMP(3)"),
)
ADDED_COLUMN = ("extra", "BIGINT")

APPEND = "append"
"""Used instead of a merge engine for a table without a primary key."""

ENGINE_OPTIONS: Mapping[str, Mapping[str, str]] = {
    APPEND: {},
    "deduplicate": {},
    "first-row": {"merge-engine": "first-row"},
    "partial-update": {"merge-engine": "partial-update", "fields.version.sequence-group": "text,price"},
    "aggregation": {
        "merge-engine": "aggregation",
        "fields.amount.aggregate-function": "sum",
        "fields.price.aggregate-function": "max",
        "fields.text.aggregate-function": "last_non_null_value",
    },
}
KINDS: Mapping[str, Sequence[str]] = {
    APPEND: ("+I",),
    "deduplicate": ("+I", "+I", "+I", "+U", "-D"),
    "first-row": ("+I",),
    "partial-update": ("+I", "+U"),
    "aggregation": ("+I", "+U"),
}


@dataclass(frozen=True)
class Case:
    """A combination of table properties."""

    engine: str
    producer: str = "none"
    bucket: str = "2"
    format: str = "parquet"
    vectors: bool = False
    partitioned: bool = False

    def __str__(self) -> str:
        parts = [self.engine, self.producer, f"bucket{self.bucket}", self.format]
        return "-".join([*parts, *(["dv"] if self.vectors else []), *(["parts"] if self.partitioned else [])])

    @property
    def is_valid(self) -> bool:
        """Whether Paimon allows this combination."""
        if not self.keyed:
            return self.producer == "none"
        if self.engine == "first-row":
            return self.producer in ("none", "lookup") and not self.vectors
        return not (self.vectors and self.producer == "full-compaction")

    @property
    def keyed(self) -> bool:
        return self.engine != APPEND

    @cached_property
    def names(self) -> Mapping[str, str]:
        """Map the plain column names to the table's names."""
        usable = {"avro": in_avro, "orc": in_orc}.get(self.format, in_options)
        plain = ("id", "region", *(name for name, _ in VALUES), ADDED_COLUMN[0])
        return drawn_names(plain, random.Random(str(self)), usable)

    @property
    def plain_columns(self) -> list[tuple[str, str]]:
        region = [("region", "STRING NOT NULL")] if self.partitioned else []
        return [("id", "INT NOT NULL"), *region, *VALUES]

    @property
    def columns(self) -> list[tuple[str, str]]:
        return [(self.names[name], kind) for name, kind in self.plain_columns]

    @property
    def primary_keys(self) -> list[str]:
        if not self.keyed:
            return []
        return [self.names[name] for name in (("region", "id") if self.partitioned else ("id",))]

    @property
    def partition_keys(self) -> list[str]:
        return [self.names["region"]] if self.partitioned else []

    @property
    def engine_options(self) -> dict[str, str]:
        return renamed_options(ENGINE_OPTIONS[self.engine], self.names.__getitem__)

    @property
    def options(self) -> dict[str, str]:
        return {
            **self.engine_options,
            "bucket": self.bucket,
            "file.format": self.format,
            **({"changelog-producer": self.producer} if self.producer != "none" else {}),
            **({"deletion-vectors.enabled": "true"} if self.vectors else {}),
            **({"dynamic-bucket.target-row-num": "15"} if self.keyed and self.bucket == "-1" else {}),
            **({"bucket-key": self.names["id"]} if not self.keyed and self.bucket != "-1" else {}),
        }


@dataclass(frozen=True)
class Write:
    """The rows of one commit, each preceded by its kind."""

    rows: list[list[Any]]


@dataclass(frozen=True)
class Compact:
    full: bool


@dataclass(frozen=True)
class AddColumn:
    name: str
    type: str


@dataclass(frozen=True)
class Delete:
    """Deletion of append rows with a smaller id; keyed rows are deleted by their kind in `Write`."""

    below: int


Step = Write | Compact | AddColumn | Delete


@dataclass
class Model:
    """The expected rows: all written records, merged by the row-wise oracle on each call."""

    case: Case
    columns: list[tuple[str, str]] = field(init=False)
    records: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.columns = list(self.case.columns)

    @property
    def fields(self) -> tuple[t.DataField, ...]:
        return tuple(t.DataField(i, name, parse_atomic(kind)) for i, (name, kind) in enumerate(self.columns))

    def play(self, step: Step) -> None:
        if isinstance(step, AddColumn):
            self.columns.append((step.name, step.type))
        if isinstance(step, Delete):
            self.records = [
                (kind, values) for kind, values in self.records if values[self.case.names["id"]] >= step.below
            ]
        if isinstance(step, Write):
            for kind, *values in step.rows:
                pairs = zip(values, self.fields, strict=True)
                self.records.append((kind, {f.name: parsed(value, f.type) for value, f in pairs}))

    def rows(self) -> list[list[Any]]:
        names = [name for name, _ in self.columns]
        if not self.case.keyed:
            return [[shown(values.get(f.name), f.type) for f in self.fields] for _, values in self.records]
        records = []
        for number, (kind, values) in enumerate(self.records):
            row: Row = tuple(values.get(name) for name in names)
            records.append(Record(tuple(values[key] for key in self.case.primary_keys), number, kind, row))
        # Compaction does not change the rows.
        case = self.case
        merged = read_bucket([File(TOP_LEVEL, records)], names, case.engine_options, self.fields, case.primary_keys)
        return [[shown(value, f.type) for value, f in zip(row, self.fields, strict=True)] for row in merged]


def history(case: Case, seed: int, steps: int = 7, keys: int = KEYS, least: int = 1) -> Iterator[Step]:
    """Draw writes of `least` to `keys` rows, with compactions in between and one added column."""
    random_ = random.Random(f"{case} {seed}")
    columns = list(case.plain_columns)
    added = random_.randrange(2, steps)
    for number in range(steps):
        if number == added:
            columns.append(ADDED_COLUMN)
            yield AddColumn(case.names[ADDED_COLUMN[0]], ADDED_COLUMN[1])
        yield Write([_row(case, columns, random_, keys) for _ in range(random_.randrange(least, keys))])
        if not case.keyed and random_.random() < 0.5:
            yield Delete(random_.randrange(keys // 2))
        if random_.random() < 0.35:
            yield Compact(full=random_.random() < 0.5)


def _row(case: Case, columns: Sequence[tuple[str, str]], random_: random.Random, keys: int) -> list[Any]:
    values = {name: random_.randrange(keys) if name == "id" else _value(name, random_) for name, _ in columns}
    return [random_.choice(KINDS[case.engine]), *(values[name] for name, _ in columns)]


def _value(name: str, random_: random.Random) -> Any:
    # Rows without a sequence merge differently depending on the files they are in, so sequences are never null.
    if name not in ("region", "version") and random_.random() < 0.25:
        return None
    return {
        "region": lambda: random_.choice(REGIONS),
        "amount": lambda: random_.randrange(-1000, 1000),
        "text": lambda: random_.choice(("", "a", "Zürich", "東京", "x" * 40)) + str(random_.randrange(9)),
        "price": lambda: f"{random_.randrange(-10_000, 10_000) / 100:.2f}",
        "version": lambda: random_.randrange(20),
        "at": lambda: f"2024-01-{random_.randrange(1, 29):02d}T10:20:30.{random_.randrange(1000):03d}000",
        "extra": lambda: random_.randrange(1 << 40),
    }[name]()
