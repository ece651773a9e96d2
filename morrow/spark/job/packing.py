"""Division of work among tasks: units are packed by weight, in their order or the heaviest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heapreplace
from typing import TypeVar

import msgspec

from morrow.engine.plan.scan_plan import DataFile, Section, SectionKind

T = TypeVar("T")

MOST_TASK_BYTES = 64 << 20
"""Bytes of files that a task reads together; a section that merges is never split."""

OPENING_BYTES = 1 << 20
"""The cost of a file besides its bytes, in bytes."""

TASKS_PER_CORE = 4
"""Tasks per core that units are dealt to: no core waits long for the last one."""


def packed(units: Iterable[T], weight: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """Yields groups of neighbouring units that weigh about `limit` together; a unit that weighs more is alone."""
    held: list[T] = []
    size = 0
    for unit in units:
        if held and size + weight(unit) > limit:
            yield held
            held, size = [], 0
        held.append(unit)
        size += weight(unit)
    if held:
        yield held


def dealt(units: Sequence[T], weight: Callable[[T], int], groups: int) -> list[list[T]]:
    """Distributes units over `groups` groups (fewer if there are fewer units) of similar weight, the heaviest first."""
    made: list[list[T]] = [[] for _ in range(min(groups, len(units)))]
    lightest = [(0, number) for number in range(len(made))]
    heapify(lightest)
    for unit in sorted(units, key=weight, reverse=True):
        size, number = lightest[0]
        made[number].append(unit)
        heapreplace(lightest, (size + weight(unit) + 1, number))
    return made


def packed_sections(sections: Sequence[Section], limit: int) -> Iterator[list[Section]]:
    """Yields groups of sections of about `limit` bytes; RAW sections may be split."""
    yield from packed((piece for section in sections for piece in pieces(section, limit)), section_weight, limit)


def pieces(section: Section, limit: int) -> Iterator[Section]:
    """Splits a section whose files are read one by one, and so by any number of tasks."""
    if section.kind is not SectionKind.RAW or section_weight(section) <= limit:
        yield section
        return
    for files in packed(section.files, _file_weight, limit):
        yield msgspec.structs.replace(section, files=tuple(files))


def task_bytes(sections: Iterable[Section], tasks: int, least: int | None = None) -> int:
    """Returns the bytes per task that give work to so many tasks: `least` (`OPENING_BYTES`) to `MOST_TASK_BYTES`."""
    each = sum(map(section_weight, sections)) // tasks
    return min(MOST_TASK_BYTES, max(each, OPENING_BYTES if least is None else least))


def section_weight(section: Section) -> int:
    return section.size + len(section.files) * OPENING_BYTES


def _file_weight(file: DataFile) -> int:
    return file.size + OPENING_BYTES
