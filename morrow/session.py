"""`morrow.open` and `morrow.clear_caches`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, TypeAlias

from morrow.engine.io.resolve import Roots, given_roots, location_of, resolve
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.table import Table

Verify: TypeAlias = Literal["pages"]
"""The checksums that reads verify, see `open`."""


def open(  # morrow.open is the name users look for
    path: str | os.PathLike[str],
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Roots = (),
    verify: Verify | None = None,
) -> Table:
    """Opens the Paimon table at `path`.

    Args:
        path: the table's folder, or its URL in an object store (``s3://bucket/warehouse/db.db/orders``).
        branch: the branch to open instead of main.
        storage_options: credentials and settings of the object store, as text, by the names that obstore and Polars
            share: ``aws_access_key_id``, ``aws_secret_access_key``, ``aws_session_token``, ``aws_region``,
            ``aws_endpoint_url``, ``aws_virtual_hosted_style_request``, ``aws_skip_signature``; ``google_...`` and
            ``azure_...`` likewise; and those of the connection, ``allow_http``, ``timeout``, ``proxy_url``. An
            endpoint that starts with ``http://`` needs no ``allow_http``. Settings not given come from the environment
            (``AWS_REGION``, ...).
        allowed_roots: further folders or URLs trusted with this table's data files. Files there are read, as in the
            table's folder and below the paths of its option ``data-file.external-paths``, and removed when nothing
            needs them, for which that option alone does not suffice.
        verify: ``"pages"`` checks Parquet data files against the checksums of their pages before their rows are used:
            the columns that are read, once per file and process. It applies to every read through this table,
            compactions included. Pages without a checksum and files of other formats are read unchecked; `Scan.verify`
            decodes those.

    Raises:
        TableNotFound: no such folder, or one without a Paimon schema.
        BranchNotFound: the table has no such branch.
        CorruptFile, Unsupported: its schema cannot be read.
        InvalidArgument: an unknown `verify`.
    """
    store, root = resolve(location_of(path), storage_options, verify)
    metadata = TableMetadata(store, root, allowed_roots=given_roots(allowed_roots))
    return Table(metadata if branch is None else metadata.on_branch(branch))


def clear_caches() -> None:
    """Drops cached metadata, masks, merged rows and results of page checks; the next read starts cold."""
    from morrow.readers.files.page_checks import PAGE_CACHE
    from morrow.readers.masks import clear_mask_cache
    from morrow.readers.merges.sections import MERGED_CACHE

    METADATA_CACHE.clear()
    clear_mask_cache()
    MERGED_CACHE.clear()
    PAGE_CACHE.clear()
