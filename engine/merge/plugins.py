"""Merge engines and aggregate functions of other packages, found by entry points.

An entry point ``morrow.merge_engines`` loads a callable ``(schema, options, where) -> MergeSpec``, or a
`morrow.engine.merge.registry.MergeEngine`; one of ``morrow.aggregate_functions`` an object whose `spec` is a
`FunctionSpec`, and which is itself the readers' aggregator.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from morrow.engine.errors import Unsupported


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
