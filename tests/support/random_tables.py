"""Random primary-key tables for Hypothesis: a history of records, split into files and levels of a possible LSM tree.

Values come from small pools, so that keys collide and sequence fields tie. ORC files do not contain fractions
of seconds, which Java and other readers read differently before 1970.

Tables are drawn with plain names, and `with_hostile_names` renames a finished one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from morrow.engine.format import types as t
from morrow.engine.format.types import parse_atomic
from morrow.engine.structs import replace
from tests.oracle import File, Record, Row, Rules, compare_age, read_bucket
from tests.support.hostile_names import hostile_names, in_options, named_in, renamed_options, renamings
from tests.support.renamed_members import moved, with_members
from tests.support.schema_file import JAVA, Spelling
from tests.support.table_factory import DataFile, TableFactory
from tests.support.unordered import set_columns
from tests.support.value_pools import NESTED, POOLS, values

PARTITION_TYPES = ("INT", "STRING", "DATE", "BOOLEAN")
SEQUENCE_TYPES = tuple(name for name in POOLS if name not in ("BOOLEAN", "BYTES", "BINARY(2)"))
MAX_LEVEL = 5
UPPER_LEVELS = (MAX_LEVEL, 4, 3)
FORMATS = ("parquet", "parquet", "orc")
KINDS = ("+I", "+I", "+U", "-D", "-U")
MEMBERS = ("x", "y", "id", "name", "n", "value", "ts")
"""Members of the ROWs in `value_pools` and `merging_columns`."""


@dataclass(frozen=True)
class WrittenFile:
    """A file of a random table, with the facts for the oracle and for writing it."""

    partition: Row
    level: int
    records: tuple[Record, ...]
    format: str
    value_stats: bool
    commit_after: bool
    dead: frozenset[int] = frozenset()

    @property
    def file(self) -> File:
        return File(self.level, self.records, self.dead)


@dataclass(frozen=True)
class RandomTable:
    """A table's definition, and its files in the order in which they are written."""

    fields: tuple[t.DataField, ...]
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    options: Mapping[str, str]
    files: tuple[WrittenFile, ...]
    spelling: Spelling = JAVA
    first_types: tuple[t.DataType | None, ...] = ()
    """The types of fields when the first file is written, if they differ from those in `fields`."""

    def write(self, path: Path) -> list[int]:
        """Write the table at `path`; return for each snapshot, in order, how many files have been written by then."""
        kinds = self.first_types or [None] * len(self.fields)
        first = [replace(f, type=kind or f.type) for f, kind in zip(self.fields, kinds, strict=True)]
        keys = self.primary_keys, self.partition_keys
        table = TableFactory(path, first, *keys, self.options, spelling=self.spelling)
        counts = []
        for i, file in enumerate(self.files):
            written = self._write_file(table, file)
            if i == 0 and self.first_types:
                table.alter(fields=self.fields)
            if file.dead:
                table.deletion_vector(written, file.dead)
            if file.commit_after or i == len(self.files) - 1:
                table.commit()
                counts.append(i + 1)
        if not counts:
            table.commit()
            counts.append(0)
        return counts

    def _write_file(self, table: TableFactory, file: WrittenFile) -> DataFile:
        return table.write_file(
            self.arrow([r.row for r in file.records]),  # cast to the table's types at that time
            partition=dict(zip(self.partition_keys, file.partition, strict=True)),
            level=file.level,
            sequence_start=[r.sequence for r in file.records],
            kinds=[r.kind for r in file.records],
            format=file.format,
            row_group_size=2,
            value_stats=file.value_stats,
        )

    def rows(self, count: int) -> list[Row]:
        """Read the first `count` files with the oracle."""
        names = [f.name for f in self.fields]
        partitions = dict.fromkeys(f.partition for f in self.files)
        return [
            row
            for partition in partitions
            for row in read_bucket(
                [f.file for f in self.files[:count] if f.partition == partition],
                names,
                self.options,
                self.fields,
                self.primary_keys,
            )
        ]

    @property
    def set_columns(self) -> tuple[str, ...]:
        """Columns whose arrays are compared as sets."""
        return set_columns((f.name for f in self.fields), self.options)

    def renamed(self, names: Mapping[str, str], members: Mapping[str, str]) -> RandomTable:
        """Rename columns and members of ROWs; records contain the names of members only."""
        member = members.__getitem__
        fields = tuple(replace(f, name=names[f.name], type=with_members(f.type, member)) for f in self.fields)
        return replace(
            self,
            fields=fields,
            primary_keys=tuple(names[name] for name in self.primary_keys),
            partition_keys=tuple(names[name] for name in self.partition_keys),
            options=renamed_options(self.options, names.__getitem__, member),
            files=tuple(replace(file, records=self._moved(file.records, fields)) for file in self.files),
        )

    def _moved(self, records: Sequence[Record], fields: Sequence[t.DataField]) -> tuple[Record, ...]:
        """Convert the records to these columns, whose member names differ."""
        kinds = [(old.type, new.type) for old, new in zip(self.fields, fields, strict=True)]
        return tuple(
            replace(record, row=tuple(moved(value, *pair) for value, pair in zip(record.row, kinds, strict=True)))
            for record in records
        )

    def arrow(self, rows: Sequence[Row]) -> pa.Table:
        columns = [pa.array([row[i] for row in rows], f.type.arrow()) for i, f in enumerate(self.fields)]
        return pa.table(columns, schema=t.to_arrow_schema(self.fields))


@dataclass(frozen=True)
class Content:
    """The content of a table's records; `pools` has values for columns that do not take every value of their type."""

    pools: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    kinds: Sequence[str] = KINDS
    least_runs: int = 0


@st.composite
def random_tables(draw: st.DrawFn) -> RandomTable:
    keys = draw(st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=3))
    partitions = draw(st.sampled_from(((), *((kind,) for kind in PARTITION_TYPES), ("INT", "STRING"))))
    others = draw(st.lists(st.sampled_from([*sorted(POOLS), *NESTED]), max_size=4))
    named: list[tuple[str, t.DataType]] = [(f"k{i}", _type(kind, nullable=False)) for i, kind in enumerate(keys)]
    named += [(f"p{i}", _type(kind, nullable=False)) for i, kind in enumerate(partitions)]
    named += [(f"v{i}", _type(kind, nullable=True)) for i, kind in enumerate(others)]
    fields = tuple(t.DataField(i, name, kind) for i, (name, kind) in enumerate(draw(st.permutations(named))))
    partition_keys = tuple(f"p{i}" for i in range(len(partitions)))
    options = draw(_options([f"v{i}" for i, kind in enumerate(others) if kind in SEQUENCE_TYPES]))
    # Without a partition column in the key, a key may change its partition, which sequence fields do not allow.
    left_out = 0 if "sequence.field" in options else draw(st.integers(0, len(partition_keys)))
    of_key = partition_keys[left_out:]
    if left_out:
        options |= {"bucket": "-1"}
    primary_keys = (*of_key, *(f"k{i}" for i in range(len(keys))))
    table = draw(filled(RandomTable(fields, primary_keys, partition_keys, options, ()), Content()))
    return draw(with_hostile_names(table))


@st.composite
def with_hostile_names(draw: st.DrawFn, table: RandomTable) -> RandomTable:
    """Rename columns to hostile names; columns that options name get names that options can hold."""
    names: dict[str, str] = {}
    for column in table.fields:
        usable = in_options if column.name in named_in(table.options) else bool
        names[column.name] = draw(hostile_names().filter(lambda n, ok=usable: ok(n) and n not in names.values()))
    return table.renamed(names, draw(renamings(MEMBERS, in_options)))


@st.composite
def filled(draw: st.DrawFn, table: RandomTable, content: Content) -> RandomTable:
    """Fill the table with files, in up to two partitions if it is partitioned."""
    partitions: list[Row] = [()]
    if table.partition_keys:
        types = {f.name: f.type for f in table.fields}
        some = st.tuples(*(values(types[name]) for name in table.partition_keys))
        partitions = draw(st.lists(some, min_size=1, max_size=2, unique=True))
    files = [file for partition in partitions for file in draw(_bucket(table, partition, content))]
    written = replace(table, files=tuple(files), spelling=draw(SPELLINGS))
    return replace(written, first_types=_first_types(written)) if draw(st.booleans()) else written


SPELLINGS = st.builds(
    Spelling,
    write_columns=st.sampled_from(("null", "named", "left out")),
    type_texts=st.booleans(),
    case=st.sampled_from((str, str.upper, str.title)),
    commas=st.booleans(),
)
NARROWER = {
    "SMALLINT": "TINYINT",
    "INT": "SMALLINT",
    "BIGINT": "INT",
    "DOUBLE": "FLOAT",
    "DECIMAL(25, 3)": "DECIMAL(10, 2)",
    "STRING": "VARCHAR(4)",
}
"""Types, and narrower types whose values Paimon casts to them without loss."""


def _first_types(table: RandomTable) -> tuple[t.DataType | None, ...]:
    """Return types that an earlier version of the table may have had and that fit the first file's values."""
    if not table.files:
        return ()
    kinds: list[t.DataType | None] = [None] * len(table.fields)
    rows = [record.row for record in table.files[0].records]
    for i, f in enumerate(table.fields):
        narrower = NARROWER.get(str(f.type.with_nullable(True)))
        if narrower and f.name not in (*table.primary_keys, *table.partition_keys):
            kind = _type(narrower, nullable=f.type.nullable)
            if all(_fits(row[i], kind) for row in rows):
                kinds[i] = kind
    return tuple(kinds)


def _fits(value: Any, kind: t.DataType) -> bool:
    try:
        same = pa.scalar(value, kind.arrow()).as_py() == value
    except (pa.ArrowInvalid, OverflowError):
        return False
    return same and (not isinstance(value, str) or len(value) <= kind.length)


def _type(kind: str | t.DataType, *, nullable: bool) -> t.DataType:
    return (kind if isinstance(kind, t.DataType) else parse_atomic(kind)).with_nullable(nullable)


@st.composite
def _options(draw: st.DrawFn, sequence_columns: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    mode = draw(st.sampled_from(("deduplicate", "deduplicate", "first-row", "deletion-vectors")))
    if mode == "first-row":
        options["merge-engine"] = "first-row"
    elif sequence_columns and draw(st.booleans()):
        chosen = draw(st.lists(st.sampled_from(sequence_columns), min_size=1, max_size=2, unique=True))
        options["sequence.field"] = ",".join(chosen)
        if draw(st.booleans()):
            options["sequence.field.sort-order"] = "descending"
    if mode == "deletion-vectors":
        options["deletion-vectors.enabled"] = "true"
        options["deletion-vectors.bitmap64"] = draw(st.sampled_from(("false", "true")))
        options["deletion-vectors.merge-on-read"] = draw(st.sampled_from(("false", "true")))
    options["ignore-delete"] = draw(st.sampled_from(("false", "true")))
    options["data-file.thin-mode"] = draw(st.sampled_from(("false", "true")))
    return options


@st.composite
def _bucket(draw: st.DrawFn, table: RandomTable, partition: Row, content: Content) -> list[WrittenFile]:
    """Divide the files of a partition: the oldest runs are in levels 5, 4 and 3, the others overlap in level 0."""
    runs = draw(st.lists(_run(table, partition, content), min_size=content.least_runs, max_size=5))
    upper = draw(st.integers(0, min(len(UPPER_LEVELS), len(runs))))
    sequences: Iterator[int] = iter(draw(st.permutations(range(sum(map(len, runs))))))
    if draw(st.booleans()):
        sequences = iter(range(10**6))
    first_row = table.options.get("merge-engine") == "first-row"
    without_retractions = "deletion-vectors.enabled" in table.options or first_row
    seen: set[Row] = set()
    files: list[WrittenFile] = []
    for i, run in enumerate(runs):
        level = UPPER_LEVELS[i] if i < upper else 0
        records = [Record(r.key, next(sequences), r.kind, r.row) for r in run]
        if level and (without_retractions or (level == MAX_LEVEL and "merge-engine" in table.options)):
            records = [Record(r.key, r.sequence, "+I", r.row) for r in records]
            if first_row:
                records = [r for r in records if r.key not in seen]
                seen |= {r.key for r in records}
        files += [draw(_file(table, partition, level, part)) for part in _split(draw, records, level) if part]
    return _with_vectors(draw, table, files) if "deletion-vectors.enabled" in table.options else files


@st.composite
def _run(draw: st.DrawFn, table: RandomTable, partition: Row, content: Content) -> list[Record]:
    """Draw records with distinct keys in key order."""
    fixed = dict(zip(table.partition_keys, partition, strict=True))
    row = st.tuples(
        *(
            st.just(fixed[f.name]) if f.name in fixed else values(f.type, content.pools.get(f.name))
            for f in table.fields
        )
    )
    key_at = [i for i, f in enumerate(table.fields) if f.name in table.primary_keys and f.name not in fixed]
    key_at.sort(key=lambda i: table.primary_keys.index(table.fields[i].name))
    rows = draw(
        st.lists(row, min_size=min(content.least_runs, 1), max_size=12, unique_by=lambda r: tuple(r[i] for i in key_at))
    )
    kinds = draw(st.lists(st.sampled_from(content.kinds), min_size=len(rows), max_size=len(rows)))
    records = [Record(tuple(r[i] for i in key_at), 0, kind, r) for r, kind in zip(rows, kinds, strict=True)]
    return sorted(records, key=lambda r: tuple(v.encode() if isinstance(v, str) else v for v in r.key))


def _split(draw: st.DrawFn, records: list[Record], level: int) -> list[list[Record]]:
    """Split a sorted run above level 0 into files with disjoint key ranges."""
    if not level or len(records) < 2 or not draw(st.booleans()):
        return [records]
    cut = draw(st.integers(1, len(records) - 1))
    return [records[:cut], records[cut:]]


@st.composite
def _file(draw: st.DrawFn, table: RandomTable, partition: Row, level: int, records: list[Record]) -> WrittenFile:
    return WrittenFile(
        partition,
        level,
        tuple(records),
        format=draw(st.sampled_from(("parquet",) if _has_fractions(table) else FORMATS)),
        value_stats=draw(st.booleans()),
        commit_after=draw(st.booleans()),
    )


def _has_fractions(table: RandomTable) -> bool:
    return any(isinstance(f.type, t.TimestampType) and f.type.precision > 0 for f in table.fields)


def _with_vectors(draw: st.DrawFn, table: RandomTable, files: list[WrittenFile]) -> list[WrittenFile]:
    """Add deletion vectors as a lookup compaction does: only a key's newest record in the upper levels can be alive.

    The vectors belong to the files from the start, so an earlier snapshot may lack keys; the oracle sees the same.
    """
    names, rules = [f.name for f in table.fields], Rules.of(table.options)
    newest: dict[Row, Record] = {}
    for file in files:
        for record in file.records if file.level else ():
            best = newest.get(record.key)
            if best is None or compare_age(best, record, names, rules) < 0:
                newest[record.key] = record
    deleted = {key for key in newest if draw(st.integers(0, 5)) == 0}
    alive = {key: record for key, record in newest.items() if key not in deleted}

    def dead(file: WrittenFile) -> frozenset[int]:
        return frozenset(i for i, r in enumerate(file.records) if alive.get(r.key) is not r)

    return [
        WrittenFile(f.partition, f.level, f.records, f.format, f.value_stats, f.commit_after, dead(f)) if f.level else f
        for f in files
    ]
