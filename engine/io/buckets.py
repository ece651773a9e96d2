"""Clients of buckets, through obstore: kept for all stores with the same options, or in the memory of this process.

obstore tries a request ten times, for half a minute, also where nobody is at the address. A server that has not yet
answered is therefore asked by a hasty client, which gives up soon. One that answered may restart: it is waited for.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Bucket

CLIENTS = 16
"""Clients that are kept, each with its open connections."""
Items: TypeAlias = tuple[tuple[str, str], ...]
HASTY_TRIES, HASTY_SECONDS = 3, 2
"""How often, and how long after its first try, a hasty client sends a request again."""
_CONNECTING = r"legacy::Error\(\s*Connect\b"
_REASON = r"message: \"([^\"]+)\"|error: \"([^\"]+)\""
_memories: dict[str, Bucket] = {}
_naming = threading.Lock()


@dataclass
class Clients:
    """Those of one bucket; `reached`: the server has answered one of them, whatever it said."""

    patient: Bucket
    hasty: Bucket
    reached: bool = False

    @classmethod
    def reaching(cls, bucket: Bucket) -> Clients:
        """Returns a client that needs no other."""
        return cls(bucket, bucket, reached=True)

    @property
    def now(self) -> Bucket:
        return self.patient if self.reached else self.hasty


def unconnected(error: Exception) -> str | None:
    """Returns why there was no connection to the server, or to one that it redirects to; None for other errors."""
    text = str(error)
    if re.search(_CONNECTING, text) is None:
        return None
    reason = re.search(_REASON, text)
    at = re.search(r"\"tcp connect error\",\s*([^\s,]+),", text)
    why = "no answer in time" if "TimedOut" in text else "no connection"
    if reason is not None:
        why = reason[1] or reason[2]
    return f"{at[1]}: {why}" if at else why


def how_to_open(error: Exception) -> str:
    """Returns what helps where no store can be made of a URL and its options."""
    from obstore.exceptions import UnknownConfigurationKeyError

    if isinstance(error, UnknownConfigurationKeyError):
        return "leave the storage option out, or see morrow.open for the names that there are"
    if (twice := re.match(r"Duplicate key (\w+)", str(error))) is not None:
        return f"several storage options mean {twice[1]}: give one of them"
    return "give a path, or an s3://, gs:// or az:// URL"


def bucket_of(base: str, config: Mapping[str, str], connection: Mapping[str, str]) -> Clients:
    """Returns clients of the bucket at the URL `base`, with options of the store and of its connections.

    Raises:
        obstore.exceptions.BaseError, ValueError: no store serves the URL, or it does not know an option.
    """
    return _client(base, _items(config), _items(connection), os.getpid(), _items(os.environ))


def _items(options: Mapping[str, str]) -> Items:
    return tuple(sorted(options.items()))


@lru_cache(CLIENTS)
def _client(base: str, config: Items, connection: Items, process: int, environment: Items) -> Clients:  # noqa: ARG001
    """Returns clients, the same ones for the same options in the same environment: their connections are open already,
    and making one takes some milliseconds."""
    from obstore.store import from_url

    made = partial(
        from_url, base, config=cast(Any, dict(config)) or None, client_options=cast(Any, dict(connection)) or None
    )
    hasty: Any = {"max_retries": HASTY_TRIES, "retry_timeout": timedelta(seconds=HASTY_SECONDS)}
    return Clients(made(), made(retry_config=hasty))


def memory_bucket(base: str) -> Bucket:
    """Returns the memory of a name: it lasts as long as the process, which all tables in it share."""
    from obstore.store import MemoryStore

    with _naming:
        return _memories.setdefault(base, MemoryStore())
