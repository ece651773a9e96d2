"""Clients of buckets, through obstore: kept for all stores with the same options, or in the memory of this process."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

CLIENTS = 16
"""Clients that are kept, each with its open connections."""
Items: TypeAlias = tuple[tuple[str, str], ...]
_memories: dict[str, Bucket] = {}
_naming = threading.Lock()


def bucket_of(base: str, config: Mapping[str, str], connection: Mapping[str, str]) -> Bucket:
    """Returns a client of the bucket at the URL `base`, with options of the store and of its connections.

    Raises:
        obstore.exceptions.BaseError, ValueError: no store serves the URL, or it does not know an option.
    """
    return _client(base, _items(config), _items(connection), os.getpid(), _items(os.environ))


def _items(options: Mapping[str, str]) -> Items:
    return tuple(sorted(options.items()))


@lru_cache(CLIENTS)
def _client(base: str, config: Items, connection: Items, process: int, environment: Items) -> Bucket:  # noqa: ARG001
    """Returns a client, the same one for the same options in the same environment: its connections are open already,
    and making one takes some milliseconds."""
    from obstore.store import from_url

    return from_url(base, config=cast(Any, dict(config)) or None, client_options=cast(Any, dict(connection)) or None)


def memory_bucket(base: str) -> Bucket:
    """Returns the memory of a name: it lasts as long as the process, which all tables in it share."""
    from obstore.store import MemoryStore

    with _naming:
        return _memories.setdefault(base, MemoryStore())
