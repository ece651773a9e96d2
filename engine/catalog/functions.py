"""Functions that a catalog keeps under a name: parameters, what is returned, and definitions for engines by dialect.

A definition is SQL, a lambda in a programming language, or a file with a class; members of the JSON are those of
Paimon's REST catalogs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from morrow.engine.errors import StorageError
from morrow.engine.format.type_json import field_from_json
from morrow.engine.format.types import DataField

SQL = "sql"


@dataclass(frozen=True)
class Definition:
    """How one engine computes a function: `kind` is ``sql``, ``lambda`` or ``file``; `text` is null for a file."""

    kind: str
    text: str | None = None


@dataclass(frozen=True)
class Function:
    """A function. `parameters` and `returns` are in their order; a scalar function returns one value."""

    parameters: tuple[DataField, ...]
    returns: tuple[DataField, ...]
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    deterministic: bool = False
    comment: str | None = None


def function_from_json(node: Any, where: str) -> Function:
    """Returns a function of its JSON.

    Raises:
        StorageError: its members are of other types. Unsupported: a type that Morrow does not know.
    """
    try:
        return Function(
            tuple(field_from_json(each, where=where) for each in node.get("inputParams") or ()),
            tuple(field_from_json(each, where=where) for each in node.get("returnParams") or ()),
            {
                str(dialect): Definition(str(each["type"]), _text(each.get("definition")))
                for dialect, each in (node.get("definitions") or {}).items()
            },
            node.get("deterministic") is True,
            node.get("comment"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{where}: the catalog does not tell what the function is ({error!r})") from error


def _text(found: Any) -> str | None:
    if not isinstance(found, (str, type(None))):
        raise TypeError(f"{found!r} is no text")
    return found
