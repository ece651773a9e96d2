"""Detection of names that differ from a known one by a slip: a typing error, or a damaged byte of an unchecked file.

An unknown name may have any meaning (a member of a newer version, an option of another program); but a name that is one
slip away from a known one that is absent is taken for that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from morrow.engine.errors import CorruptFile

SHORT = 8
"""Shorter names must have the length of the other name: ``buckets`` may well be another option than ``bucket``."""
LEAST_RUN = 2
SEPARATORS = ".-_"


def slip_of(name: str, known: Collection[str]) -> str | None:
    """Returns the first of the `known` names that is one slip away from `name`; None for none, and for a known name."""
    if name in known:
        return None
    return next((meant for meant in known if is_slip(name, meant)), None)


@lru_cache(maxsize=1 << 16)
def is_slip(name: str, meant: str) -> bool:
    """Returns whether `name` is `meant` with one character changed, added, left out or exchanged with its neighbour.

    Also whether it is `meant` with one run of characters doubled, or cut out in the middle of a word.
    """
    name, head, tail = _apart(name, meant)
    other = meant[head : len(meant) - tail]
    if len(name) == len(other):
        return len(name) == 1 or (len(name) == 2 and name == other[::-1])
    if len(meant) < SHORT:
        return False
    if not name:
        return len(other) == 1 or _breaks_a_word(meant, head, len(other))
    return not other and (len(name) == 1 or (len(name) >= LEAST_RUN and _is_doubled(name, meant, head)))


def _apart(name: str, meant: str) -> tuple[str, int, int]:
    """Returns the part of `name` that differs, and the numbers of equal characters before and after it in `meant`."""
    most = min(len(name), len(meant))
    head = next((i for i in range(most) if name[i] != meant[i]), most)
    tail = next((i for i in range(most - head) if name[-1 - i] != meant[-1 - i]), most - head)
    return name[head : len(name) - tail], head, tail


def _breaks_a_word(meant: str, start: int, length: int) -> bool:
    """Returns whether cutting a run of `length`, wherever it began, leaves half of `meant`, and not whole words."""
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
    """Checks that no unknown member of a JSON object is one slip away from a known one that it lacks.

    Raises:
        CorruptFile: one is; the known member would otherwise be read as absent.
    """
    absent = [name for name in known if name not in node]
    for name in node:
        if name not in known and (meant := slip_of(name, absent)) is not None:
            raise CorruptFile(path, f"the member {name!r} looks like a damaged {meant!r}, which is missing")
