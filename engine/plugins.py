"""Code from other packages: entry points that extend Morrow, and the libraries of its extras.

The object that an entry point loads, by its group:
- ``morrow.merge_engines``: a callable ``(schema, options, where) -> MergeSpec``, or a
  `morrow.engine.merge.engines.MergeEngine`.
- ``morrow.aggregate_functions``: an object whose `spec` is a `FunctionSpec`, and which is itself the aggregator of the
  readers.
- ``morrow.file_formats``: a `FileFormat` of `morrow.engine.format`.
- ``morrow.file_readers``: a `FileReader` of `morrow.readers`, under the name of the format.
- ``morrow.file_writers``: a `FileWriter` of `morrow.writers`, under the name of the format.
- ``morrow.catalogs``: a callable ``(settings) -> Catalog``, under the name of the ``metastore``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from morrow.engine.errors import Unsupported

T = TypeVar("T")

FILE_FORMATS = "morrow.file_formats"
FILE_READERS = "morrow.file_readers"
FILE_WRITERS = "morrow.file_writers"
CATALOGS = "morrow.catalogs"


def load_plugin(group: str, name: str) -> Any:
    """Return the object that an installed package registered under this name; None if there is none.

    Raises `Unsupported`: several packages claim the name, or the object does not load.
    """
    found = entry_points(group=group, name=name)
    if not found:
        return None
    if len(found) > 1:
        claims = ", ".join(sorted(entry.value for entry in found))
        raise Unsupported(f"{name!r}, which several packages register as {group} ({claims}),", hint="uninstall one")
    (entry,) = found
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        raise Unsupported(
            f"{name!r} of the entry point {group} = {entry.value}", hint=f"it does not load: {error}"
        ) from error


def load_plugin_of(group: str, name: str, kind: type[T]) -> T | None:
    """Return the result of `load_plugin`, checked to be of this class.

    Raises `Unsupported`: as `load_plugin`, or the object is of another class.
    """
    found = _load_cached_plugin(group, name, tuple(sys.path))
    if found is None or isinstance(found, kind):
        return found
    raise Unsupported(f"{name!r} of the entry point {group}", hint=f"it must be a {kind.__name__}, not {found!r}")


@lru_cache(maxsize=64)
def _load_cached_plugin(group: str, name: str, path: tuple[str, ...]) -> Any:  # noqa: ARG001  # what is installed depends on it
    return load_plugin(group, name)


MIN_VERSIONS = {"duckdb": "1.4", "numpy": "1.26", "polars": "1.40", "pyarrow": "17"}
"""The bounds of pyproject.toml for libraries whose versions differ in what Morrow uses; a test compares them."""


def check_libraries() -> None:
    """Raise `Unsupported` if a library that is imported is older than Morrow's bounds."""
    for name, least in MIN_VERSIONS.items():
        version = getattr(sys.modules.get(name), "__version__", least)
        if parse_version(version) < parse_version(least):
            raise Unsupported(f"{name} {version}", hint=f"run: pip install '{name}>={least}'")


@contextmanager
def expect_new_libraries() -> Iterator[None]:
    """Run imports. If they raise an error and a library is too old, raise `Unsupported` instead."""
    try:
        yield
    finally:
        check_libraries()


def parse_version(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in version.split(".")[:2])


@contextmanager
def require_extra(what: str, module: str, extra: str) -> Iterator[None]:
    """Run imports of `module`, which the extra of this name installs.

    Raises `Unsupported`: `module` is not installed; the hint has the command.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise Unsupported(f"{what} without {module}", hint=f"run: pip install 'morrow[{extra}]'") from error
