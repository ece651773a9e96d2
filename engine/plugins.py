"""What other packages add to Morrow, found by entry points.

====================================  ==================================================================================
group                                 what an entry point loads
====================================  ==================================================================================
``morrow.merge_engines``              a callable ``(schema, options, where) -> MergeSpec``, or a
                                      `morrow.engine.merge.registry.MergeEngine`
``morrow.aggregate_functions``        an object whose `spec` is a `FunctionSpec`, and which is itself the readers'
                                      aggregator
``morrow.file_formats``               a `morrow.engine.format.file_formats.FileFormat`
``morrow.file_readers``               a `morrow.readers.files.registry.FileReader`, under the name of the format
``morrow.file_writers``               a `morrow.writers.files.encoders.FileWriter`, under the name of the format
``morrow.catalogs``                   a callable ``(settings) -> Catalog``, under the name of the ``metastore``
====================================  ==================================================================================
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from morrow.engine.errors import Unsupported

T = TypeVar("T")

FILE_FORMATS = "morrow.file_formats"
FILE_READERS = "morrow.file_readers"
FILE_WRITERS = "morrow.file_writers"
CATALOGS = "morrow.catalogs"


def plugin(group: str, name: str) -> Any:
    """Returns the object that an installed package registered under this name; None when there is none.

    Raises:
        Unsupported: several packages claim the name, or the object does not load.
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


def plugin_of(group: str, name: str, kind: type[T]) -> T | None:
    """Returns `plugin`, which must be of this class.

    Raises:
        Unsupported: as `plugin`, or it is something else.
    """
    found = _remembered(group, name, tuple(sys.path))
    if found is None or isinstance(found, kind):
        return found
    raise Unsupported(f"{name!r} of the entry point {group}", hint=f"it must be a {kind.__name__}, not {found!r}")


@lru_cache(maxsize=64)
def _remembered(group: str, name: str, path: tuple[str, ...]) -> Any:  # noqa: ARG001  # what is installed depends on it
    return plugin(group, name)
