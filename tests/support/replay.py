"""Golden tables recomputed by the oracle: it merges the records of each commit like writers and compactions.

A commit merges its own records of a key into one, a table with ``ignore-delete`` drops retractions when they are
written, and a compaction merges all records of a key and removes the key if the result is a retraction.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from morrow.engine.format import types as t
from morrow.engine.format.types import from_json_field
from tests.oracle import FOLDS, File, Record, Row, Rules, by_age, merge_record, read_bucket
from tests.oracle.records import RETRACTIONS
from tests.support.golden import jsonl
from tests.support.golden_values import parsed, shown

COMPACTED_LEVEL = 5


class Replay:
    """The versions of every key with their levels, after the operations of a case."""

    def __init__(self, case: Path) -> None:
        self.folder = case
        self.case: dict[str, Any] = json.loads((case / "case.json").read_text())
        self.snapshots = {s["id"]: s for s in self.case["snapshots"]}
        self.versions: dict[Row, list[tuple[int, Record]]] = defaultdict(list)
        self.written = 0
        self._schema(0)

    def run(self) -> Iterator[tuple[dict[str, Any], list[list[Any]]]]:
        """Replay each snapshot that ``case.json`` describes; yield it with its rows in canonical values."""
        seen = 0
        for operation in self.case["inputs"]:
            if operation["op"] == "alter":
                self._alter(operation["schema_id"])
                continue
            if "file" in operation:
                self._commit(jsonl(self.folder / operation["file"]))
            for id in range(seen + 1, operation["latest_snapshot_after"] + 1):
                if self.snapshots[id]["kind"] == "COMPACT":
                    self._compact()
                yield self.snapshots[id], self._read()
            seen = operation["latest_snapshot_after"]

    def _schema(self, id: int) -> None:
        path = self.folder / self.case["table_path"] / "schema" / f"schema-{id}"
        schema = json.loads(path.read_text())
        self.fields: Sequence[t.DataField] = [from_json_field(node) for node in schema["fields"]]
        self.names = [f.name for f in self.fields]
        self.rules = Rules.of(schema["options"], self.fields, self.case["primary_keys"])

    def _alter(self, id: int) -> None:
        """Add columns, which are null in earlier rows."""
        old = [f.id for f in self.fields]
        self._schema(id)
        at = [old.index(f.id) if f.id in old else None for f in self.fields]
        for versions in self.versions.values():
            for i, (level, record) in enumerate(versions):
                row = tuple(None if j is None else record.row[j] for j in at)
                versions[i] = level, Record(record.key, record.sequence, record.kind, row)

    def _commit(self, lines: list[list[Any]]) -> None:
        given: dict[Row, list[Record]] = defaultdict(list)
        key_at = [self.names.index(name) for name in self.case["primary_keys"]]
        for kind, *values in lines:
            if not (self.rules.ignore_delete and kind in RETRACTIONS):
                row = tuple(parsed(v, f.type) for v, f in zip(values, self.fields, strict=True))
                key = tuple(row[i] for i in key_at)
                given[key].append(Record(key, self.written, kind, row))
                self.written += 1
        for key, records in given.items():
            self.versions[key].append((0, self._merged(records)))

    def _compact(self) -> None:
        for key, versions in list(self.versions.items()):
            merged = self._merged([record for _, record in versions])
            self.versions[key] = [(COMPACTED_LEVEL, merged)]
            if merged.retracts:
                del self.versions[key]

    def _merged(self, records: list[Record]) -> Record:
        fold = FOLDS[self.rules.merge_engine]
        return merge_record(fold, by_age(records, self.names, self.rules), self.names, self.rules)

    def _read(self) -> list[list[Any]]:
        files = [File(level, [record]) for versions in self.versions.values() for level, record in versions]
        rows = read_bucket(files, self.names, self.rules.options, self.fields, self.case["primary_keys"])
        return [[shown(v, f.type) for v, f in zip(row, self.fields, strict=True)] for row in rows]
