"""Golden cases whose operations Morrow repeats, to compare the resulting metadata."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from morrow.engine.format import types as t
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.manifests import list_delta_manifests, read_index_entries, read_manifest_entries
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.structs import replace
from morrow.writers.operations.compaction import compact_table
from morrow.writers.operations.overwrite import drop_partitions, overwrite_rows, truncate_table
from morrow.writers.operations.write_session import WriteSession
from morrow.writers.target import WriteTarget
from tests.support.golden import jsonl
from tests.support.golden_values import parsed

TEMPORAL = (t.DateType, t.TimeType, t.TimestampType, t.LocalZonedTimestampType)


class GoldenReplay:
    """A replay of the operations of the case in `folder`, on a table with the same schemas in `root`."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        self.case: Mapping[str, Any] = json.loads((folder / "case.json").read_text())
        self.of_java = TableMetadata(LocalStore(), str(folder / self.case["table_path"]))
        self.of_morrow = TableMetadata(LocalStore(), str(root / "t"))
        self._session: WriteSession | None = None
        self._streamed = 0
        self._take_schema(0)

    @property
    def compacts_by_itself(self) -> bool:
        """Whether a write may have compacted existing files."""
        names = [operation["op"] for operation in self.case["inputs"]]
        return bool(self.case["primary_keys"]) and any(
            n.startswith(("write", "stream")) and "only" not in n for n in names
        )

    def run(self) -> None:
        for operation in self.case["inputs"]:
            self.do(operation)

    def do(self, operation: Mapping[str, Any]) -> None:
        """Repeat one operation; operations that change no rows are skipped."""
        name = operation["op"]
        if name == "alter":
            self._take_schema(operation["schema_id"])
        elif name.startswith("stream-write"):
            self._stream(operation)
        elif (do := next((do for prefix, do in OPERATIONS.items() if name.startswith(prefix)), None)) is not None:
            do(self, WriteTarget.of(self.of_morrow), operation)

    def _overwrite(self, target: WriteTarget, operation: Mapping[str, Any]) -> None:
        rows, kinds = self._rows(target, operation)
        overwrite_rows(target, rows, _partition(operation["op"]), None, kinds)

    def _truncate(self, target: WriteTarget, operation: Mapping[str, Any]) -> None:
        spec = _partition(operation["op"])
        drop_partitions(target, [spec]) if spec else truncate_table(target)

    def _compact(self, target: WriteTarget, operation: Mapping[str, Any]) -> None:
        compact_table(target, full="full" in operation["op"])

    def _stream(self, operation: Mapping[str, Any]) -> None:
        """Commit with one session for the whole stream; commits are numbered from 0."""
        if self._session is None:
            self._session = WriteSession(WriteTarget.of(self.of_morrow, "stream"))
        rows, kinds = self._rows(self._session.target, operation)
        self._session.write(rows, kinds)
        self._session.commit(self._streamed)
        self._streamed += 1

    def _write(self, target: WriteTarget, operation: Mapping[str, Any]) -> None:
        if "write-only" in operation["op"]:
            target = replace(target, write=replace(target.write, write_only=True))
        rows, kinds = self._rows(target, operation)
        session = WriteSession(target)
        session.write(rows, kinds)
        session.commit()

    def _rows(self, target: WriteTarget, operation: Mapping[str, Any]) -> tuple[pa.Table, list[str]]:
        rows = jsonl(self.folder / operation["file"])
        fields = target.schema.fields
        assert [f.name for f in fields] == operation["fields"]
        columns = [column([row[i + 1] for row in rows], f.type) for i, f in enumerate(fields)]
        return pa.table(columns, schema=t.to_arrow_schema(fields)), [row[0] for row in rows]

    def _take_schema(self, schema_id: int) -> None:
        path = Path(self.of_morrow.paths.schema(schema_id))
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.of_java.paths.schema(schema_id), path)


def _partition(name: str) -> dict[str, str]:
    """Parse the values in ``overwrite {dt=2024-01-02}``."""
    inner = name.partition("{")[2].rstrip("}")
    return dict(pair.split("=", 1) for pair in inner.split(", ") if pair)


OPERATIONS: Mapping[str, Callable[[GoldenReplay, WriteTarget, Mapping[str, Any]], None]] = {
    "write": GoldenReplay._write,
    "overwrite": GoldenReplay._overwrite,
    "truncate": GoldenReplay._truncate,
    "compact full": GoldenReplay._compact,
    "append compact": GoldenReplay._compact,
}
"""The functions by the prefix of an operation's name; other operations (tags, consumers) change no data."""


def column(values: Sequence[Any], kind: t.DataType) -> pa.Array:
    """Convert canonical values to an Arrow column of their type."""
    if isinstance(kind, t.ArrayType):
        return _lists(values, column([item for value in values for item in value or ()], kind.element), kind)
    if isinstance(kind, t.RowType):
        members = [column([v and v[i] for v in values], f.type.with_nullable(True)) for i, f in enumerate(kind.fields)]
        missing = pa.array([value is None for value in values])
        return pa.StructArray.from_arrays(
            members, fields=[pa.field(f.name, f.type.with_nullable(True).arrow()) for f in kind.fields], mask=missing
        )
    if isinstance(kind, t.MapType):
        entries = [entry for value in values for entry in value or ()]
        keys, items = column([e[0] for e in entries], kind.key), column([e[1] for e in entries], kind.value)
        return pa.MapArray.from_arrays(_edges(values), keys, items).cast(kind.arrow())
    if not isinstance(kind, TEMPORAL):
        return pa.array([parsed(value, kind) for value in values], kind.arrow())
    if isinstance(kind, t.TimeType):
        values = [None if value is None else f"1970-01-01T{value}" for value in values]
    unit = {"date32[day]": "D", "time32[ms]": "ms"}.get(str(kind.arrow())) or kind.arrow().unit
    ticks = [None if v is None else np.datetime64(v.removesuffix("Z"), unit).astype(np.int64).item() for v in values]
    storage = pa.int32() if kind.arrow().bit_width == 32 else pa.int64()
    return pa.array(ticks, storage).cast(kind.arrow())


def _lists(values: Sequence[Any], items: pa.Array, kind: t.DataType) -> pa.Array:
    return pa.ListArray.from_arrays(_edges(values), items).cast(kind.arrow())


def _edges(values: Sequence[Any]) -> pa.Array:
    """Compute the offsets of lists; null lists have null offsets."""
    edges = list(accumulate((len(value or ()) for value in values), initial=0))
    return pa.array([None if v is None else e for v, e in zip(values, edges)] + edges[-1:], pa.int32())


# Compared metadata


SNAPSHOT = ("id", "schema_id", "commit_kind", "watermark", "next_row_id")
COUNTS = ("total_record_count", "delta_record_count", "changelog_record_count")
DROPPED = ("_FILE_NAME", "_FILE_SIZE", "_CREATION_TIME", "_EXTRA_FILES", "_EXTERNAL_PATH", "_VERSION")
"""Fields that depend on names, clocks and encoders."""


def described(metadata: TableMetadata, snapshot: Snapshot) -> dict[str, Any]:
    """Describe the logical metadata of a snapshot: its sorted changes, and its index files."""
    changelog = snapshot.changelog_manifest_list
    return {
        **{name: getattr(snapshot, name) for name in (*SNAPSHOT, *COUNTS)},
        "files": _entries(metadata, snapshot),
        "changelog": None
        if changelog is None
        else _entries(
            metadata,
            replace(
                snapshot,
                delta_manifest_list=changelog,
                delta_manifest_list_size=snapshot.changelog_manifest_list_size,
            ),
        ),
        "indexes": _indexes(metadata, snapshot),
    }


def _entries(metadata: TableMetadata, snapshot: Snapshot) -> list[dict[str, Any]]:
    frames = read_manifest_entries(metadata, list_delta_manifests(metadata, snapshot))
    if not frames:
        return []
    frame = pl.concat(frames).with_columns(pl.col("_EXTRA_FILES").list.len().alias("extra"))
    return _sorted(frame.drop(DROPPED).to_dicts())


def _indexes(metadata: TableMetadata, snapshot: Snapshot) -> list[dict[str, Any]]:
    frame = read_index_entries(metadata, snapshot)
    if frame is None:
        return []
    ranges = pl.col("_DELETIONS_VECTORS_RANGES").list.eval(pl.element().struct.field("_CARDINALITY")).list.sort()
    return _sorted(
        frame.select("_KIND", "_PARTITION", "_BUCKET", "_INDEX_TYPE", "_ROW_COUNT", "_FILE_SIZE", ranges).to_dicts()
    )


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    key: Callable[[dict[str, Any]], str] = repr
    return sorted(rows, key=key)
