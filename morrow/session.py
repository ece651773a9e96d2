"""`morrow.open`, `morrow.scan`, `morrow.read` and `morrow.clear_caches`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack

from morrow.engine.catalog.names import parse_object_name
from morrow.engine.io import cache_folder
from morrow.engine.io.resolve import Roots, resolve, resolve_roots, to_location
from morrow.engine.plan.filter import FilterLike
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.engine.plan.time_travel import TravelArguments, parse_travel
from morrow.scans.arguments import expose_travel_arguments
from morrow.scans.table_scan import make_scan
from morrow.tables.table import Table

if TYPE_CHECKING:
    import polars as pl

    from morrow.scans.system_tables import SystemScan
    from morrow.scans.table_scan import Scan

Verify: TypeAlias = Literal["pages"]
"""The kind of checksums that reads verify; see `open`."""


def open(  # morrow.open is the name users look for
    path: str | os.PathLike[str],
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    filesystem: object = None,
) -> Table:
    """Open the Paimon table at `path`.

    Args:
        path: the table's folder, or its URL in an object store (``s3://bucket/warehouse/db.db/orders``).
        branch: the branch to open instead of main.
        storage_options: credentials and settings of the object store as text, by the names that obstore and Polars
            share: ``aws_access_key_id``, ``aws_secret_access_key``, ``aws_session_token``, ``aws_region``,
            ``aws_endpoint_url``, ``aws_virtual_hosted_style_request``, ``aws_skip_signature``; similar ``google_...``
            and ``azure_...``; and the connection settings ``allow_http``, ``timeout`` and ``proxy_url``. An endpoint
            that starts with ``http://`` does not need ``allow_http``. Missing settings come from the environment
            (``AWS_REGION``, ...). Paimon's names work, too: ``s3.access-key``, ``fs.oss.endpoint``.
        allowed_roots: further folders or URLs that may contain this table's data files. Files there are read, as are
            files in the table's folder and below the paths of its option ``data-file.external-paths``. They are also
            removed when they are no longer needed, which that option alone does not allow.
        verify: ``"pages"`` verifies the page checksums of Parquet data files before rows are used, for columns that are
            read, once per file and process. It applies to every read through this table, including compactions. Pages
            without a checksum and files of other formats are not checked; use `Scan.verify` for them.
        filesystem: an fsspec file system for `path`, instead of `storage_options`.

    Raises:
        TableNotFound: the folder does not exist or does not contain a Paimon schema.
        BranchNotFound: the branch does not exist.
        CorruptFile, Unsupported: its schema cannot be read.
        InvalidArgument: an unknown `verify`.
    """
    return Table(_open_metadata(path, branch, storage_options, allowed_roots, verify, filesystem))


def _open_metadata(
    path: str | os.PathLike[str],
    branch: str | None,
    storage_options: Mapping[str, str] | None,
    allowed_roots: Roots,
    verify: Verify | None,
    filesystem: object = None,
) -> TableMetadata:
    store, root = resolve(to_location(path), storage_options, verify, filesystem)
    metadata = TableMetadata(store, root, allowed_roots=resolve_roots(allowed_roots))
    return metadata if branch is None else metadata.on_branch(branch)


@expose_travel_arguments
def scan(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    **at: Unpack[TravelArguments],
) -> pl.LazyFrame:
    """Return the rows of the table at `path` as a Polars LazyFrame.

    The snapshot is chosen now: the newest one, unless the arguments select another. The read is planned when the frame
    is collected, so that columns, filters and limits set later are pushed to the files.

    Args:
        path: as for `open`; it may end with the name of a branch or of a system table: ``orders$branch_dev``,
            ``orders$snapshots``.
        storage_options, allowed_roots, verify: as for `open`.
        columns, filter, limit, as_of, snapshot, tag, timestamp, watermark, version, branch: as for `Table.scan`.

    Raises: as `open` and `Table.scan`; collecting raises as reading does.
    """
    return scan_at(path, columns, filter, limit, storage_options, allowed_roots, verify, **at).lazy()


@expose_travel_arguments
def read(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    *,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    **at: Unpack[TravelArguments],
) -> pl.DataFrame:
    """Return the rows of the table at `path` as a Polars DataFrame. Arguments and errors as of `scan`."""
    return scan_at(path, columns, filter, limit, storage_options, allowed_roots, verify, **at).to_polars()


def scan_at(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    filter: FilterLike | None = None,
    limit: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
    **at: Unpack[TravelArguments],
) -> Scan | SystemScan:
    """Return a scan of the table, branch or system table that `path` names. Arguments and errors as of `scan`."""
    name = parse_object_name(to_location(path))
    name.branch_or(at.get("branch"))  # raises if both name a branch; the scan opens it
    metadata = _open_metadata(name.table, name.branch, storage_options, allowed_roots, verify)
    if name.system is None:  # opening the table first would look up the newest snapshot twice
        return make_scan(metadata, columns=columns, filter=filter, limit=limit, travel=parse_travel(**at), nested=True)
    return Table(metadata).system(name.system, columns, filter, limit, **at)


def clear_caches(*, folder: bool = False) -> None:
    """Clear the caches of this process: metadata, masks, merged rows, results of page checks.

    The cache folder stays, and may speed up the next read. With `folder` it is emptied, too, for all processes.
    """
    from morrow.readers.files.page_checksums import PAGE_CACHE
    from morrow.readers.masks.section_cache import SECTIONS

    METADATA_CACHE.clear()
    SECTIONS.clear()
    PAGE_CACHE.clear()
    if folder and (kept := cache_folder.find_cache_folder()) is not None:
        cache_folder.wait_for_writes()
        kept.clear()


def use_cache_folder(folder: str | os.PathLike[str] | bool = True) -> None:
    """Choose the folder that caches masks, merged rows and keys across processes, for later reads.

    Args:
        folder: a folder; True for the default one (``MORROW_CACHE_DIR``, else ``morrow`` in the user's cache folder);
            False to disable it. ``MORROW_CACHE=off`` takes precedence.

    Raises:
        InvalidArgument: neither a folder nor a boolean.
    """
    cache_folder.use_folder(folder if isinstance(folder, bool) else to_location(folder, "the cache folder"))
