"""Where Spark finds the files of a table: on the disk of every executor, or in a store that its session knows.

Morrow's store reads metadata and masks, with the options that it was given; Spark reads data files by file systems of
its own, as its session is configured. No option is passed on: what Spark gets is a URL.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from morrow.engine.io.store import FileStore
from morrow.spark.jvm.scanning import Scanning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAR = "the files lie in an object store"

NO_FILE_SYSTEM = "no file system"
"""What all schemes but one come to, and the least that there is to tell."""

ACCOUNTS = ("azure_storage_account_name", "account_name")
ACCOUNT_VARIABLE = "AZURE_STORAGE_ACCOUNT_NAME"


@dataclass(frozen=True)
class Place:
    """The URL that Spark has for the store's paths to begin with; or why it does not reach the files."""

    url: str = ""
    obstacle: str | None = None


DISK = Place("file:")


class Located(Protocol):
    """A file that Spark has to find."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...


def place_of(store: FileStore, file: Located | None, scanning: Scanning, spark: SparkSession) -> Place:
    """Returns where Spark finds the files of a store; `file` is one of them, which it has to find."""
    if store.is_local:
        return DISK
    if scanning.obstacle is not None or file is None:
        return Place(obstacle=FAR)
    said = None
    for url in _urls(store):
        obstacle = scanning.reaches(spark, url + file.path, file.size)
        if obstacle is None:
            return Place(url)
        if said is None or NO_FILE_SYSTEM not in obstacle:
            said = obstacle
    return Place(obstacle=f"{FAR}, and {said}" if said else FAR)


def _urls(store: FileStore) -> Iterator[str]:
    """Yields what Spark may call the store, that which Morrow calls it first."""
    url = store.url("")
    scheme, _, rest = url.partition("://")
    yield url
    if scheme.lower() in OTHER_URLS:
        yield from OTHER_URLS[scheme.lower()](rest, store)


def _named(*schemes: str) -> Callable[[str, FileStore], Iterator[str]]:
    return lambda rest, _store: (f"{scheme}://{rest}" for scheme in schemes)


def _azure(rest: str, store: FileStore) -> Iterator[str]:
    """Returns the URL of a container in Azure, with the account in it as Hadoop wants it."""
    container, _, path = rest.partition("/")
    given = {name.lower(): value for name, value in store.storage_options.items()}
    account = next((given[name] for name in ACCOUNTS if name in given), os.environ.get(ACCOUNT_VARIABLE))
    if account and "@" not in container:
        yield f"abfss://{container}@{account}.dfs.core.windows.net/{path}"


OTHER_URLS: Mapping[str, Callable[[str, FileStore], Iterator[str]]] = {
    "s3": _named("s3a"),
    "s3a": _named("s3"),
    "gs": _named("gcs"),
    "az": _azure,
    "azure": _azure,
    "adl": _azure,
    "abfs": _azure,
    "abfss": _azure,
}
"""Scheme of Morrow's URL -> the URLs that Hadoop's file systems may have for the same store."""
