"""Opening tables by path, and the caches of this process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from morrow.engine.io.resolve import resolve
from morrow.engine.plan.metadata import METADATA_CACHE, TableMetadata
from morrow.table import Table


def open(  # morrow.open is the name users look for
    path: str | os.PathLike[str],
    *,
    branch: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    allowed_roots: Sequence[str] = (),
) -> Table:
    """Open the Paimon table at `path`.

    Args:
        path: the table's folder, or its URL in an object store (``s3://bucket/warehouse/db.db/orders``).
        branch: read this branch instead of main.
        storage_options: credentials and settings of the object store, as text, by the names that obstore and Polars
            share: ``aws_access_key_id``, ``aws_secret_access_key``, ``aws_session_token``, ``aws_region``,
            ``aws_endpoint_url``, ``aws_virtual_hosted_style_request``, ``aws_skip_signature``; ``google_...`` and
            ``azure_...`` likewise; and those of the connection, ``allow_http``, ``timeout``, ``proxy_url``. An
            endpoint that starts with ``http://`` needs no ``allow_http``. What is not given comes from the
            environment (``AWS_REGION``, ...).
        allowed_roots: further folders under which external data files may lie, besides the table itself and the roots
            that its option ``data-file.external-paths`` names.

    Raises:
        TableNotFound: no such folder, or one without a Paimon schema.
        BranchNotFound: the table has no such branch.
        CorruptFile, Unsupported: its schema cannot be read.
    """
    store, root = resolve(os.fspath(path), storage_options)
    metadata = TableMetadata(store, root, allowed_roots=tuple(allowed_roots))
    return Table(metadata if branch is None else metadata.on_branch(branch))


def clear_caches() -> None:
    """Drop decoded metadata, computed masks and merged rows; the next read starts cold."""
    from morrow.readers.masks import clear_mask_cache
    from morrow.readers.merges.cache import MERGED_CACHE

    METADATA_CACHE.clear()
    clear_mask_cache()
    MERGED_CACHE.clear()
