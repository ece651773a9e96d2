"""The files that belong to a table, and orphans, which no reader will ever open."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

from morrow.engine.format.manifest import decode_index_manifest, decode_manifest, decode_manifest_list
from morrow.engine.format.snapshot import Snapshot
from morrow.engine.io.local import LocalStore
from morrow.engine.plan.metadata import TableMetadata


def orphans(table: str) -> set[str]:
    """Return the files below the folder that no schema, snapshot, hint or list of the table names."""
    return {path.name for path in Path(table).rglob("*") if path.is_file()} - set(_named(table))


def _named(table: str) -> Iterator[str]:
    metadata = TableMetadata(LocalStore(), table)
    yield from ("LATEST", "EARLIEST")
    yield from (f"schema-{i}" for i in metadata.schema_ids())
    for snapshot in metadata.snapshots():
        yield f"snapshot-{snapshot.id}"
        yield from _named_by(snapshot, Path(table) / "manifest")


def _named_by(snapshot: Snapshot, folder: Path) -> Iterator[str]:
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list)
    for name in filter(None, lists):
        yield name
        for manifest in _manifests((folder / name).read_bytes(), name):
            yield manifest
            yield from _files((folder / manifest).read_bytes(), manifest)
    if snapshot.index_manifest:
        yield snapshot.index_manifest
        yield from _index_files((folder / snapshot.index_manifest).read_bytes(), snapshot.index_manifest)


# Cached by content, since tests look at hundreds of copies of a table.


@cache
def _manifests(content: bytes, name: str) -> list[str]:
    return decode_manifest_list(content, name)["_FILE_NAME"].to_list()


@cache
def _files(content: bytes, name: str) -> list[str]:
    entries = decode_manifest(content, name)
    return [*entries["_FILE_NAME"], *entries["_EXTRA_FILES"].explode().drop_nulls()]


@cache
def _index_files(content: bytes, name: str) -> list[str]:
    return decode_index_manifest(content, name)["_FILE_NAME"].to_list()


def fingerprint(path: str) -> str:
    """Return a text that is equal for tables with the same folders and the same files with the same bytes."""
    digest = sha256()
    for entry in sorted(Path(path).rglob("*")):
        content = entry.read_bytes() if entry.is_file() else b""
        digest.update(f"{entry.relative_to(path)}\0{entry.is_file()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
