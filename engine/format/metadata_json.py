"""JSON files of a table (schema, snapshot, tag): parser, printer as in Java, and detection of misspelt names.

An unknown name may have any meaning (a member of a newer version, an option of another program). But if a known name
is absent, an unknown name that differs by one typing error or damaged byte counts as a misspelling of the known name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from morrow.engine.errors import CorruptFile

T = TypeVar("T")


def parse_object(data: bytes, path: str) -> dict[str, Any]:
    """Parse the JSON object in `data`.

    Raises `CorruptFile`: not JSON, not an object, or an object with duplicate member names.
    """
    try:
        node = msgspec.json.decode(data)
        if isinstance(node, dict):
            json.loads(data, object_pairs_hook=_check_distinct)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise CorruptFile(path, f"not a JSON object ({error})") from error
    if not isinstance(node, dict):
        raise CorruptFile(path, f"a JSON object was expected, found {type(node).__name__}")
    return node


def _check_distinct(members: list[tuple[str, Any]]) -> None:
    """Refuse duplicate member names: writers never repeat a name, so one of them is damaged."""
    names = [name for name, _ in members]
    if len(set(names)) < len(names):
        raise ValueError(f"two members {next(name for name in names if names.count(name) > 1)!r}")


def build_from_json(path: str, build: Callable[[Mapping[str, Any]], T], node: Mapping[str, Any]) -> T:
    """Return `build(node)`, and report a missing or ill-typed member as a corrupt file.

    Raises `CorruptFile`: a required member is absent or of the wrong type.
    """
    try:
        return build(node)
    except KeyError as error:
        raise CorruptFile(path, f"the member {error} is missing") from error
    except (TypeError, ValueError, msgspec.ValidationError, AttributeError, OverflowError, RecursionError) as error:
        raise CorruptFile(path, f"a member has the wrong type ({error})") from error


def format_json(node: Any) -> bytes:
    """Print `node` like Java's pretty printer: one member per line, arrays of objects without line breaks between them.

    Therefore files with equal content have equal bytes, whether Java or Morrow writes them.
    """
    return _format_node(node, "").encode()


def _format_node(node: Any, margin: str) -> str:
    if isinstance(node, Mapping):
        inner = margin + "  "
        members = [f"{inner}{_format_scalar(key)} : {_format_node(value, inner)}" for key, value in node.items()]
        return "{\n" + ",\n".join(members) + f"\n{margin}}}" if members else "{ }"
    if isinstance(node, (list, tuple)):
        return f"[ {', '.join(_format_node(element, margin) for element in node)} ]" if node else "[ ]"
    return _format_scalar(node)


def _format_scalar(node: Any) -> str:
    # A decimal keeps its trailing zeros.
    return f"{node:f}" if isinstance(node, Decimal) else json.dumps(node, ensure_ascii=False)


SHORT = 8
"""Minimum length of names that may differ in length: ``buckets`` may be another option than ``bucket``."""
MIN_RUN = 2
SEPARATORS = ".-_"


def find_meant_name(name: str, known: Collection[str]) -> str | None:
    """Return the first `known` name of which `name` is a misspelling; None if there is none or `name` is known."""
    if name in known:
        return None
    return next((meant for meant in known if is_misspelling(name, meant)), None)


@lru_cache(maxsize=1 << 16)
def is_misspelling(name: str, meant: str) -> bool:
    """Return whether `name` is `meant` with one character changed, added, left out or exchanged with its neighbour.

    Also True if one run of characters is doubled, or removed from the middle of a word.
    """
    name, head, tail = _find_difference(name, meant)
    other = meant[head : len(meant) - tail]
    if len(name) == len(other):
        return len(name) == 1 or (len(name) == 2 and name == other[::-1])
    if len(meant) < SHORT:
        return False
    if not name:
        return len(other) == 1 or _is_broken_word(meant, head, len(other))
    return not other and (len(name) == 1 or (len(name) >= MIN_RUN and _is_doubled(name, meant, head)))


def _find_difference(name: str, meant: str) -> tuple[str, int, int]:
    """Return the part of `name` that differs, and the numbers of equal characters before and after it in `meant`."""
    most = min(len(name), len(meant))
    head = next((i for i in range(most) if name[i] != meant[i]), most)
    tail = next((i for i in range(most - head) if name[-1 - i] != meant[-1 - i]), most - head)
    return name[head : len(name) - tail], head, tail


def _is_broken_word(meant: str, start: int, length: int) -> bool:
    """Return whether removing a run of `length` at any equivalent start leaves half of `meant`, and not whole words."""
    if 2 * length > len(meant):
        return False
    begins = start
    while begins and meant[begins - 1] == meant[begins - 1 + length]:
        begins -= 1
    edges = SEPARATORS
    for at in range(begins, start + 1):
        end = at + length
        before = at == 0 or meant[at - 1] in edges or meant[at] in edges
        after = end == len(meant) or meant[end] in edges or meant[end - 1] in edges
        if before and after:
            return False
    return True


def _is_doubled(run: str, meant: str, head: int) -> bool:
    return meant[:head].endswith(run) or meant[head:].startswith(run)


def refuse_slips(node: Mapping[str, Any], known: Collection[str], path: str) -> None:
    """Check that unknown members of a JSON object are not misspellings of known, absent members.

    Raises `CorruptFile`: a misspelt member, which would otherwise be read as absent.
    """
    absent = [name for name in known if name not in node]
    for name in node:
        if name not in known and (meant := find_meant_name(name, absent)) is not None:
            raise CorruptFile(path, f"the member {name!r} looks like a damaged {meant!r}, which is missing")
