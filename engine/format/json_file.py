"""The JSON files of a table (schema, snapshot, tag): parsing with errors that name the file, and Java's printing."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from morrow.engine.errors import CorruptFile

T = TypeVar("T")


def parse_object(data: bytes, path: str) -> dict[str, Any]:
    """Parses the JSON object in `data`.

    Raises:
        CorruptFile: not JSON, not an object, or an object with two members of one name.
    """
    try:
        node = msgspec.json.decode(data)
        if isinstance(node, dict):
            json.loads(data, object_pairs_hook=_distinct)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise CorruptFile(path, f"not a JSON object ({error})") from error
    if not isinstance(node, dict):
        raise CorruptFile(path, f"a JSON object was expected, found {type(node).__name__}")
    return node


def _distinct(members: list[tuple[str, Any]]) -> None:
    """Refuses two members of one name: one of the names is damaged, as no writer repeats one."""
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        raise ValueError(f"two members {next(name for name in names if names.count(name) > 1)!r}")


def built(path: str, build: Callable[[Mapping[str, Any]], T], node: Mapping[str, Any]) -> T:
    """Returns `build(node)`, and reports a missing or ill-typed member as a corrupt file.

    Raises:
        CorruptFile: a member that the format requires is absent or of the wrong type.
    """
    try:
        return build(node)
    except KeyError as error:
        raise CorruptFile(path, f"the member {error} is missing") from error
    except (TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFile(path, f"a member has the wrong type ({error})") from error


def printed(node: Any) -> bytes:
    """Prints `node` as Java's pretty printer does: a member a line, arrays of objects without line breaks between them.

    So files of equal content have equal bytes, written by Java or Morrow.
    """
    return _printed(node, "").encode()


def _printed(node: Any, margin: str) -> str:
    if isinstance(node, Mapping):
        inner = margin + "  "
        members = [f"{inner}{_scalar(key)} : {_printed(value, inner)}" for key, value in node.items()]
        return "{\n" + ",\n".join(members) + f"\n{margin}}}" if members else "{ }"
    if isinstance(node, (list, tuple)):
        return f"[ {', '.join(_printed(element, margin) for element in node)} ]" if node else "[ ]"
    return _scalar(node)


def _scalar(node: Any) -> str:
    # A decimal keeps its trailing zeros.
    return f"{node:f}" if isinstance(node, Decimal) else json.dumps(node, ensure_ascii=False)
