"""Modules import each other in one direction: no module leads back to itself, imports within functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "readers", "writers")


def modules() -> dict[str, Path]:
    """The files of all modules by their names; each package once, not through the links below `morrow/`."""
    found = {}
    for folder in (*PACKAGES, "morrow"):
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if parts[0] == "morrow" and parts[1] in PACKAGES:
                continue
            parts = parts if parts[0] == "morrow" else ("morrow", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules that code imports when it runs, wherever the import stands; not those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                yield from imported(ast.Module([other], []), known)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module for name in names)
        else:
            yield from imported(node, known)


def test_no_module_leads_back_to_itself() -> None:
    known = modules()
    graph = {
        name: {other for other in imported(ast.parse(path.read_text()), known) if other in known and other != name}
        for name, path in known.items()
    }

    assert len(graph) > 300
    assert sum(map(len, graph.values())) > len(graph)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
