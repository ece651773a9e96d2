"""The rooms of the writers and the readers, the arrows between them, and their cycles.

    python -m tests.support.rooms [FOLDER]

A room is a package or module directly in `writers/` or `readers/`. An arrow leads from one room to another if any
module of the first imports one of the second: imports in functions count, imports for type checkers only do not.
A tangle is a group of rooms that all lead to each other. FOLDER is another checkout to compare with.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("engine", "readers", "writers")
HOUSES = ("writers", "readers")

Graph = Mapping[str, Set[str]]


def modules(root: Path = ROOT) -> dict[str, Path]:
    """Map the names of all modules to their files; each package counts once, without the links below `morrow/`."""
    found = {}
    for folder in (*PACKAGES, "morrow"):
        for path in (root / folder).rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[0] == "morrow" and parts[1] in PACKAGES:
                continue
            parts = parts if parts[0] == "morrow" else ("morrow", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(known: Mapping[str, Path]) -> dict[str, set[str]]:
    """Return the other modules that each module imports at run time."""
    return {
        name: {other for other in _imported(ast.parse(path.read_text()), known) if other in known and other != name}
        for name, path in known.items()
    }


def _imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                yield from _imported(ast.Module([other], []), known)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)
        else:
            yield from _imported(node, known)


def rooms(graph: Graph, house: str) -> dict[str, set[str]]:
    """Return the rooms of a house (``writers``) with the rooms from which each imports."""
    found: dict[str, set[str]] = {}
    for name, others in graph.items():
        room = _room(name, house)
        if room is not None:
            arrows = {_room(other, house) for other in others} - {None, room}
            found.setdefault(room, set()).update(arrow for arrow in arrows if arrow is not None)
    return found


def _room(name: str, house: str) -> str | None:
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == house else None


def tangles(graph: Graph) -> list[set[str]]:
    """Return the strongly connected groups of nodes."""
    reached = {name: _reached(graph, name) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(group) for group in groups if group]


def _reached(graph: Graph, start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for other in graph.get(ahead.pop(), set()) - found:
            found.add(other)
            ahead.append(other)
    return found


def _describe(graph: Graph, house: str) -> Iterator[str]:
    found = rooms(graph, house)
    groups = tangles(found)
    yield f"{house}: {len(found)} rooms, {sum(map(len, found.values()))} arrows, {len(groups)} tangles"
    for room in sorted(found):
        size = sum(_room(name, house) == room for name in graph)
        yield f"  {room} ({size} modules): {', '.join(sorted(found[room])) or '-'}"
    for group in groups:
        yield f"  each of these leads to every other: {', '.join(sorted(group))}"


if __name__ == "__main__":
    graph = imports(modules(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
    for house in HOUSES:
        print("\n".join(_describe(graph, house)))
