"""Paths of files under a table's folder, and checks that names from metadata stay inside the folder.

schema/schema-<id>   snapshot/snapshot-<id>, LATEST, EARLIEST   tag/tag-<name>   branch/branch-<name>/...
manifest/...         index/...   statistics/...                 [<data dir>/][k=v/...]bucket-<n>/<data file>
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

import msgspec
import polars as pl

from morrow.engine.arguments import is_name
from morrow.engine.errors import UnsafePath
from morrow.engine.io.store import FileStore
from morrow.engine.polars_threads import MAX_SMALL_ROWS

DATABASE_SUFFIX = ".db"
"""The suffix of database folders in a warehouse."""
MAIN_BRANCH = "main"
POSTPONE_BUCKET = -2
"""The bucket of postponed rows, which are not yet assigned to a bucket; -1 means a dynamic number of buckets."""
LATEST, EARLIEST = "LATEST", "EARLIEST"
"""Hint files with the newest and oldest snapshot or changelog id of their folder."""
CHANGELOG_PREFIX = "changelog-"
INDEX_SUFFIX = ".index"
MAX_ID = 2**63 - 1
MAX_DIGITS = len(str(MAX_ID))
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


class TablePaths(msgspec.Struct, frozen=True):
    """Paths of one table; `branch` changes the schema, snapshot and tag folders, not the paths of data files."""

    root: str
    branch: str = MAIN_BRANCH

    @property
    def branch_root(self) -> str:
        return (
            self.root
            if self.branch == MAIN_BRANCH
            else f"{self.root}/branch/branch-{check_segment(self.branch, self.root)}"
        )

    @property
    def schema_dir(self) -> str:
        return f"{self.branch_root}/schema"

    @property
    def snapshot_dir(self) -> str:
        return f"{self.branch_root}/snapshot"

    @property
    def tag_dir(self) -> str:
        return f"{self.branch_root}/tag"

    @property
    def branches_dir(self) -> str:
        return f"{self.root}/branch"

    def schema(self, schema_id: int) -> str:
        return f"{self.schema_dir}/schema-{schema_id}"

    def snapshot(self, snapshot_id: int) -> str:
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    def tag(self, name: str) -> str:
        return f"{self.tag_dir}/tag-{check_segment(name, self.tag_dir)}"

    def manifest(self, name: str) -> str:
        """Return the path of a manifest, manifest list or index manifest."""
        return f"{self.root}/manifest/{check_segment(name, self.root)}"

    def index(self, name: str) -> str:
        return f"{self.root}/index/{check_segment(name, self.root)}"

    def statistics(self, name: str) -> str:
        return f"{self.root}/statistics/{check_segment(name, self.root)}"


def check_segment(name: str, where: str) -> str:
    """Return `name` if it is a single path segment.

    Raises:
        UnsafePath: a separator, ``.``, ``..``, an empty name, a NUL byte or half a surrogate pair.
    """
    if not name or name in (".", "..") or any(c in name for c in "/\\") or not is_name(name):
        raise UnsafePath(
            f"{where}: metadata names the file {name!r}, which is not a single path segment; nothing was read"
        )
    return name


def check_segments(names: pl.Series, where: str) -> None:
    """Check a whole column of names as `check_segment` does. Raises `UnsafePath`."""
    if len(names) <= MAX_SMALL_ROWS:
        for name in names.to_list():
            check_segment(name, where)
        return
    bad = names.filter(names.str.contains(r"[/\\\x00]|^\.{0,2}$"))
    if len(bad):
        check_segment(bad[0], where)


def parse_numbered(name: str, prefix: str) -> int | None:
    """Return the id in a file name such as ``snapshot-12``; None for names that Paimon does not use.

    Backups and copies such as ``schema-01``, ``snapshot-1.tmp`` or ``schema-1 (copy)`` are not mistaken for the
    original.
    """
    return parse_file_id(name.removeprefix(prefix)) if name.startswith(prefix) else None


def parse_file_id(text: str | bytes) -> int | None:
    """Parse an id in a file name or hint: digits without a leading zero, within 64 bits."""
    if not text.isascii() or not text.isdigit() or len(text) > MAX_DIGITS:
        return None
    number = int(text)
    return number if number <= MAX_ID and len(str(number)) == len(text) else None


def build_bucket_dir(root: str, partition: str, bucket: int, data_directory: str | None) -> str:
    """Return the folder of a bucket; `partition` is the ``k=v/...`` path, empty for unpartitioned tables."""
    name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
    return "/".join(part for part in (root, data_directory, partition, name) if part)


def check_external_path(path: str, roots: Sequence[str], *, where: str) -> str:
    """Return `path` as a path within the store, if it is below one of the allowed roots.

    Raises:
        UnsafePath: the path is outside of all roots, or contains ``..``.
    """
    location = normalize_path(path)
    allowed = [normalize_path(root) for root in roots if root]
    if ".." not in location.split("/") and any(
        location == r or location.startswith(r.rstrip("/") + "/") for r in allowed
    ):
        return location
    listed = ", ".join(allowed) or "none"
    raise UnsafePath(
        f"{where}: metadata points to {path}, outside of the allowed roots ({listed}); if you trust it, name its "
        "folder in the table option 'data-file.external-paths' or in morrow.open(..., allowed_roots=[...])"
    )


def to_store_path(store: FileStore, path: str) -> str | None:
    """Return an external path or root as a path within `store`, without trailing slash; None if it is elsewhere."""
    location, base = normalize_path(path), store.url("")
    if not location.startswith(base) or ".." in location.split("/"):
        return None
    if store.is_local and not location.startswith("/"):
        return None
    return location.removeprefix(base).rstrip("/") or None


def normalize_path(path: str) -> str:
    """Normalize a path: ``file:///a/b`` and ``file:/a/b`` become ``/a/b``, and ``.`` segments are removed.

    Other URLs keep their scheme, in lower case since schemes are case-insensitive.
    """
    scheme = SCHEME.match(path)
    if scheme is not None and scheme[1].lower() != "file":
        return scheme[1].lower() + path[scheme.end(1) :]
    if ".." in path.split("/"):
        return path
    return posixpath.normpath(path if scheme is None else "/" + path[scheme.end() :].lstrip("/"))
