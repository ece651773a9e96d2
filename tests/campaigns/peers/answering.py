"""Reads of pypaimon repeated by Morrow, and Morrow's appends and upserts to copies of the tables."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import morrow
from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.format import variant
from tests.campaigns.damage.readings import lines
from tests.campaigns.peers.filters import to_polars

EQUAL, WRONG, REFUSED, PEER_FAILED, SKIPPED = "equal", "wrong", "refused", "peer failed", "not compared"
AS_JAVA = "as Java"
OUTCOMES = (EQUAL, WRONG, AS_JAVA, REFUSED, PEER_FAILED, SKIPPED)
"""In order: the same rows; other rows or an untyped error; rows that Java reads like Morrow; a `MorrowError`; pypaimon
cannot read its own table or a copy that Morrow wrote to; a read other than a scan of one snapshot."""
DIFFERENCES = {
    "DataEvolutionTest::test_with_filter_and_projection": "pypaimon 1.4 ignores conditions on columns that it omits",
    "test_is_not_in_pk": "NOT IN of pypaimon 1.3 holds for null",
    "test_pk_first_row_add_column": "Java reads no rows of first-row tables before they are compacted",
    "test_first_row_engine_keeps_first": "Java reads no rows of first-row tables before they are compacted",
    "test_first_row_e2e": "Java reads no rows of first-row tables before they are compacted",
    "test_schema_evolution_type_lossy_old_file_only": "Java rounds decimals that lose digits",
    "test_schema_evolution_type_promotion_unpartitioned": "Java rounds decimals that lose digits",
}
"""Tests in which pypaimon and Java read different rows, by part of their id; Morrow follows Java."""
READ, APPEND, UPSERT = "read", "append", "upsert"
OPERATIONS = (READ, APPEND, UPSERT)
WRITTEN_ROWS = 3
"""Number of rows in an append or upsert."""
SHOWN_ROWS = 3

Message = Mapping[str, Any]


@dataclass
class Case:
    """A comparison: the operation and its outcome."""

    test: str
    operation: str
    outcome: str
    path: str = ""
    error: str = ""
    text: str = ""


@dataclass
class Answers:
    """The cases so far, and the folder of the copies."""

    folder: Path
    cases: list[Case] = field(default_factory=list)
    number: int = 0
    waiting: dict[str, tuple[Case, pa.Table, pa.Table]] = field(default_factory=dict)
    """The copies that pypaimon must still read, each with the expected rows and the rows that Morrow reads."""

    def answer(self, message: Message) -> list[str]:
        """Process a message of `hook`; return the folders of the copies to read back.

        An error of the campaign itself counts as other rows: the test goes on, and the error is reported.
        """
        try:
            return self._answer(message)
        except Exception as error:  # noqa: BLE001  # whatever it is, pypaimon waits for an answer
            self.cases.append(Case(message["test"], READ, WRONG, error=type(error).__name__, text=f"campaign: {error}"))
            return []

    def _answer(self, message: Message) -> list[str]:
        if message["op"] == "skip":
            self.cases.append(Case(message["test"], READ, SKIPPED, text=message["reason"]))
            return []
        if message["op"] == "readback":
            self.cases.append(_read_back(message, *self.waiting.pop(message["path"])))
            shutil.rmtree(message["path"])
            return []
        case = _repeat(message)
        self.cases.append(case)
        return self._written(message) if message["write"] and case.outcome == EQUAL else []

    def _written(self, message: Message) -> list[str]:
        """Append some of the table's own rows to a copy, or upsert them with each other's values."""
        self.number += 1
        copy = self.folder / f"{self.number}.db" / "t"
        shutil.copytree(message["path"], copy)
        rows = _rows(message)
        some = rows.slice(0, WRITTEN_ROWS)
        table = morrow.open(copy)
        keys = (*table.primary_keys, *table.partition_keys)
        if table.primary_keys:
            moved = some.take(pa.array([*range(1, some.num_rows), *range(min(1, some.num_rows))], pa.int64()))
            some = pa.table({n: (some if n in keys else moved)[n] for n in some.column_names})
        operation = UPSERT if table.primary_keys else APPEND
        case = Case(message["test"], operation, EQUAL, message["path"])
        if not some.num_rows:
            shutil.rmtree(copy)
            return []
        try:
            getattr(table, operation)(some)
            mine = table.to_arrow()
        except Exception as error:  # noqa: BLE001  # counted by class
            shutil.rmtree(copy)
            self.cases.append(_refused(case, error))
            return []
        expected = _expected(table, rows, some, keys) if operation == APPEND or _replaces(table) else mine
        self.waiting[str(copy)] = case, _alike(expected, mine), mine
        return [str(copy)]


def _replaces(table: morrow.Table) -> bool:
    """Return whether an upsert always replaces the present rows."""
    options = table.options
    is_plain = options.get("merge-engine", "deduplicate") == "deduplicate" and options.get("bucket") != "-2"
    return is_plain and not any(name in options for name in ("sequence.field", "rowkind.field", "record-level"))


def _expected(table: morrow.Table, rows: pa.Table, some: pa.Table, keys: Iterable[str]) -> pa.Table:
    if not table.primary_keys:
        return pa.concat_tables([rows, some], promote_options="default")
    names = list(dict.fromkeys(keys))
    return pa.concat_tables([rows.slice(some.num_rows) if names else rows, some], promote_options="default")


def _read_back(message: Message, case: Case, expected: pa.Table, mine: pa.Table) -> Case:
    if "error" in message:
        error, _, text = message["error"].partition(": ")
        return Case(case.test, case.operation, PEER_FAILED, case.path, error, text)
    wanted = lines(_decode_variants(expected))
    for what, rows in (("read by Morrow", mine), ("read by pypaimon", _alike(_rows(message), mine))):
        found = lines(_decode_variants(rows))
        if found != wanted:
            text = f"{what}: {_difference(found, wanted)}"
            return Case(case.test, case.operation, WRONG, case.path, text=text)
    return case


def _repeat(message: Message) -> Case:
    case = Case(message["test"], READ, EQUAL, message["path"])
    if message["filter"] is not None:
        try:
            condition = to_polars(message["filter"])
        except InvalidArgument as method:
            return Case(case.test, READ, SKIPPED, case.path, text=f"the filter: {method}")
    else:
        condition = None
    morrow.clear_caches()  # tests delete tables and reuse their names
    at = dict(message["at"]) | ({"branch": message["branch"]} if message["branch"] else {})
    try:
        table = morrow.open(message["path"]).with_options(message["options"])
        mine = table.scan(message["columns"], condition, **at).to_arrow()
    except Exception as error:  # noqa: BLE001  # counted by class
        return _refused(case, error)
    try:
        theirs = lines(_decode_variants(_alike(_rows(message), mine)))
    except pa.ArrowException as error:
        return Case(case.test, READ, WRONG, case.path, text=f"other types: {error}")
    found = lines(_decode_variants(mine))
    missing = Counter(theirs) - Counter(found)
    # Any rows satisfy a limit.
    if missing or (message["limit"] is None and len(found) != len(theirs)):
        outcome = AS_JAVA if any(part in case.test for part in DIFFERENCES) else WRONG
        return Case(case.test, READ, outcome, case.path, text=f"{_difference(found, theirs)}; {dict(message) | HIDDEN}")
    return case


HIDDEN = {"rows": "...", "test": "...", "op": READ}


def _refused(case: Case, error: Exception) -> Case:
    outcome = REFUSED if isinstance(error, MorrowError) else WRONG
    return Case(case.test, case.operation, outcome, case.path, type(error).__name__, str(error))


def _rows(message: Message) -> pa.Table:
    with pa.ipc.open_stream(message["rows"]) as reader:
        return reader.read_all()


def _alike(rows: pa.Table, other: pa.Table) -> pa.Table:
    """Cast rows to the types of other rows, with all columns and members nullable."""
    schema = pa.schema(map(_nullable, other.schema))
    return rows.select(schema.names).cast(schema)


def _decode_variants(rows: pa.Table) -> pa.Table:
    """Replace VARIANT columns by JSON texts: pypaimon and Java order the members of one object differently."""
    for at, column in enumerate(rows.schema):
        kind = column.type
        if pa.types.is_struct(kind) and {member.name for member in kind} == {"value", "metadata"}:
            values = (row and variant.decode(row["value"], row["metadata"]) for row in rows[at].to_pylist())
            texts = [json.dumps(value, sort_keys=True, default=repr) for value in values]
            rows = rows.set_column(at, column.name, pa.array(texts, pa.string()))
    return rows


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct(list(map(_nullable, kind)))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_type, _nullable(kind.item_field))
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return field.with_type(kind).with_nullable(True)


def _difference(found: list[str], expected: list[str]) -> str:
    missing, extra = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
    counts = f"{len(found)} rows for {len(expected)}"
    shown = [f"{sign} {row[:300]}" for sign, rows in (("-", missing), ("+", extra)) for row in list(rows)[:SHOWN_ROWS]]
    return "\n    ".join([counts, *shown])


def table_of(cases: Iterable[Case]) -> str:
    """Format a table with a row for each operation and a column for each outcome."""
    counts = Counter((case.operation, case.outcome) for case in cases)
    rows = [f"{'':8}" + "".join(f"{outcome:>14}" for outcome in OUTCOMES)]
    rows += [f"{o:8}" + "".join(f"{counts[o, outcome]:14}" for outcome in OUTCOMES) for o in OPERATIONS]
    return "\n".join(rows)


def reasons(cases: Iterable[Case], outcome: str) -> list[tuple[str, int]]:
    """Count the reasons for an outcome without paths and numbers, the most frequent first."""
    counts: Counter[str] = Counter()
    for case in cases:
        if case.outcome == outcome:
            text = re.sub(r"\S*/\S*", "...", case.text.splitlines()[0] if case.text else "")
            text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]+|\d+", "N", text)
            counts[f"{case.operation} {case.error} {text[:160]}".replace("  ", " ")] += 1
    return counts.most_common()
