"""A reader of Iceberg tables of its own, by fastavro and pyarrow, which checks the metadata against the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from morrow.engine.format.deletion_vectors import decode_vector
from morrow.engine.format.iceberg_files import decode_bound
from morrow.engine.format.types import parse_atomic

EXISTING, ADDED, DELETED = 0, 1, 2
PYTHON = "MORROW_PYICEBERG"
"""The environment variable that names a Python with pyiceberg[snappy]."""
READ = """
import json, sys
from pyiceberg.table import StaticTable
tables = [StaticTable.from_metadata(path) for path in sys.argv[1:]]
print(json.dumps([table.scan().to_arrow().to_pylist() for table in tables], default=str))
"""


def load_metadata(folder: Path, version: int | None = None) -> Any:
    """Return a version of the metadata; None: the one that the hint names."""
    newest = int((folder / "version-hint.text").read_text()) if version is None else version
    return json.loads((folder / f"v{newest}.metadata.json").read_text())


def find_snapshot(metadata: Mapping[str, Any], snapshot_id: int | None = None) -> Any:
    wanted = metadata["current-snapshot-id"] if snapshot_id is None else snapshot_id
    (found,) = (each for each in metadata["snapshots"] if each["snapshot-id"] == wanted)
    return found


def load_manifests(snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
    return load_avro(snapshot["manifest-list"])


def load_avro(path: str) -> list[dict[str, Any]]:
    with Path(path).open("rb") as stream:
        return [row for row in fastavro.reader(stream) if isinstance(row, dict)]


def load_entries(snapshot: Mapping[str, Any], content: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the entries of a snapshot, after a check of their manifests."""
    for manifest in load_manifests(snapshot):
        entries = load_avro(manifest["manifest_path"])
        check_manifest(manifest, entries)
        if manifest["content"] == content:
            yield from entries


def check_manifest(manifest: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> None:
    """Check the length, counts and sequence numbers of a manifest against its entries."""
    assert Path(manifest["manifest_path"]).stat().st_size == manifest["manifest_length"]
    for status, name in ((EXISTING, "existing"), (ADDED, "added"), (DELETED, "deleted")):
        files = [each["data_file"] for each in entries if each["status"] == status]
        count = manifest.get(f"{name}_files_count", manifest.get(f"{name}_data_files_count"))
        assert count == len(files)
        assert manifest[f"{name}_rows_count"] == sum(file["record_count"] for file in files)
    assert manifest["min_sequence_number"] == min(each["sequence_number"] for each in entries)
    for each in entries:
        assert each["data_file"]["content"] == manifest["content"]
        assert each["status"] != ADDED or each["snapshot_id"] == each["sequence_number"]


def read_rows(folder: Path, snapshot_id: int | None = None, version: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a snapshot by the names of today's columns, sorted as text."""
    metadata = load_metadata(folder, version)
    snapshot = find_snapshot(metadata, snapshot_id)
    (schema,) = (each for each in metadata["schemas"] if each["schema-id"] == metadata["current-schema-id"])
    dead = {each["data_file"]["referenced_data_file"]: each["data_file"] for each in load_entries(snapshot, 1)}
    rows: list[dict[str, Any]] = []
    live = [each["data_file"] for each in load_entries(snapshot) if each["status"] != DELETED]
    assert len({file["file_path"] for file in live}) == len(live)
    assert dead.keys() <= {file["file_path"] for file in live}
    for file in live:
        rows += read_file(file, dead.get(file["file_path"]), schema)
    summary = snapshot["summary"]
    if "total-records" in summary:  # Java 1.4 leaves the totals out
        vectors = sum(file["record_count"] for file in dead.values())
        assert int(summary["total-records"]) - vectors == len(rows)
        assert int(summary["total-data-files"]) == len(live)
        assert int(summary["total-files-size"]) == sum(file["file_size_in_bytes"] for file in live)
    return sorted(rows, key=str)


def read_file(file: Mapping[str, Any], vector: Mapping[str, Any] | None, schema: Mapping[str, Any]) -> list[Any]:
    """Return the live rows of a data file, found by field ids, after a check of its size and statistics."""
    assert Path(file["file_path"]).stat().st_size == file["file_size_in_bytes"]
    table = pq.read_table(file["file_path"], partitioning=None)
    assert table.num_rows == file["record_count"]
    places = {int(field.metadata[b"PARQUET:field_id"]): place for place, field in enumerate(table.schema)}
    columns = {each["id"]: each for each in schema["fields"]}
    for name, aggregate in (("lower_bounds", min), ("upper_bounds", max)):
        for bound in file[name] or ():
            if bound["key"] not in columns or columns[bound["key"]]["type"] not in ("int", "long", "double"):
                continue
            kind = {"int": "INT", "long": "BIGINT", "double": "DOUBLE"}[columns[bound["key"]]["type"]]
            values = [value for value in table.column(places[bound["key"]]).to_pylist() if value is not None]
            assert decode_bound(bound["value"], parse_atomic(kind)) == aggregate(values)
    for count in file["null_value_counts"] or ():
        assert table.column(places[count["key"]]).null_count == count["value"]
    names = {field_id: each["name"] for field_id, each in columns.items()}
    data = {names[i]: table.column(places[i]) if i in places else pa.nulls(table.num_rows) for i in names}
    rows: list[Any] = pa.table(data).to_pylist()
    if vector is None:
        return rows
    path, start = Path(vector["file_path"]), vector["content_offset"]
    blob = path.read_bytes()[start : start + vector["content_size_in_bytes"]]
    gone = set(decode_vector(blob[4:-4], where=str(path), row_count=len(rows)).positions().tolist())
    assert len(gone) == vector["record_count"]
    return [row for place, row in enumerate(rows) if place not in gone]


def list_unused(folder: Path) -> set[str]:
    """Return the names of files that no snapshot of the newest metadata needs."""
    metadata = load_metadata(folder)
    needed = {f"v{metadata['current-snapshot-id']}.metadata.json", "version-hint.text"}
    for snapshot in metadata["snapshots"]:
        needed.add(Path(snapshot["manifest-list"]).name)
        needed |= {Path(manifest["manifest_path"]).name for manifest in load_manifests(snapshot)}
    return {path.name for path in folder.iterdir()} - needed


def read_by_pyiceberg(folders: Sequence[Path]) -> list[list[dict[str, Any]]]:
    """Return the rows that pyiceberg reads of each table, or skip the test."""
    python = os.environ.get(PYTHON) or (sys.executable if find_spec("pyiceberg") else None)
    if python is None:
        pytest.skip(f"pyiceberg is not installed: pip install 'pyiceberg[snappy]', or set {PYTHON}")
    paths = [str(folder / f"v{(folder / 'version-hint.text').read_text()}.metadata.json") for folder in folders]
    done = subprocess.run([python, "-c", READ, *paths], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return [sorted(rows, key=str) for rows in found]
