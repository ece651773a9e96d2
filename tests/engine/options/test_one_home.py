"""Options are read through their declarations: modules outside ``engine/options`` never write an option's key."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from morrow.engine.options.declarations import FIELDS
from morrow.engine.options.table_options import BY_ANY_KEY, COLUMN_OPTIONS

ROOT = Path(__file__).parents[3]
HOUSE = ("engine", "readers", "writers", "morrow")
LINKS = tuple(ROOT / "morrow" / name for name in HOUSE[:-1])
BELOW = ROOT / "engine" / "format"
"""The layer that reads files and no options; it knows defaults that old schema files leave out."""
AS_A_USER = ROOT / "morrow" / "cli" / "warehouse.py"
"""A module that makes tables as users do, and so writes option keys."""
MAPPINGS = ("raw", "options", "given", "table_options", "said")
"""Variables that hold options: a key without a dash or a dot counts only in a lookup in one of these."""
ALSO_SOMETHING_ELSE = {
    "primary-key": "readers/merges/functions/scalars.py",  # the name of an aggregate function
}


def modules() -> list[Path]:
    found = (path for top in HOUSE for path in (ROOT / top).rglob("*.py"))
    home = ROOT / "engine" / "options"
    return [path for path in found if not any(path.is_relative_to(place) for place in (home, BELOW, AS_A_USER, *LINKS))]


def keys_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Find the literals that are option keys, with their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_key(node.value):
            yield node.lineno, node.value
        if isinstance(node, ast.Subscript) and _is_mapping(node.value):
            yield from _bare(node.slice)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_mapping(node.func.value):
            yield from (key for argument in node.args[:1] for key in _bare(argument))


def _is_key(text: str) -> bool:
    if text.startswith(FIELDS) or any(text == f".{suffix}" for suffix in COLUMN_OPTIONS):
        return True
    return text in BY_ANY_KEY and not text.isalpha()


def _is_mapping(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in MAPPINGS


def _bare(node: ast.expr) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Constant) and node.value in BY_ANY_KEY:
        yield node.lineno, str(node.value)


@pytest.mark.parametrize("source", ['raw["bucket"]', 'x.options.get("path")', '"file.format"', 'f"fields.{name}.x"'])
def test_a_key_is_noticed(source: str) -> None:
    assert list(keys_in(ast.parse(source)))


@pytest.mark.parametrize("source", ['frame["bucket"]', '"bucket"', "\"the option 'file.format' is orc\""])
def test_other_text_is_not(source: str) -> None:
    assert not list(keys_in(ast.parse(source)))


def test_no_other_module_writes_a_key() -> None:
    found = [f"{path}:{line}: {text}" for path, line, text in everywhere() if ALSO_SOMETHING_ELSE.get(text) != path]
    assert not found, "read it by its declaration in engine/options/declared:\n" + "\n".join(found)


def everywhere() -> Iterator[tuple[str, int, str]]:
    for path in modules():
        for line, key in keys_in(ast.parse(path.read_text())):
            yield path.relative_to(ROOT).as_posix(), line, key
