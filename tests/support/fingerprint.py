"""Fingerprint of the code: what every function and class does, whatever module it is in.

    python -m tests.support.fingerprint [REVISION] [--names FILE]

Moving code between modules leaves the fingerprint as it is. The multiset holds each top-level function, class and
assignment of the product without docstrings, comments and imports; an imported name counts as the name that its module
gives it, however it is reached. With a revision, prints the differences between that revision and this tree, and exits
with 1 if there are any. FILE maps old names to new ones, one pair a line, for changes that rename.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from tests.support.rooms import ROOT, modules


def read_fingerprint(root: Path, names: Mapping[str, str] | None = None) -> Counter[str]:
    """Return the multiset of ``name hash`` for all top-level statements of the product below a folder."""
    known = modules(root)
    found: Counter[str] = Counter()
    for path in known.values():
        tree = ast.parse(path.read_text())
        plain = _PlainNames(_imported_names(tree, known), names or {})
        for statement in tree.body:
            found.update(_describe(node) for node in _flat(plain.visit(statement)))
    return found


def _flat(node: ast.AST | list[ast.AST] | None) -> Iterator[ast.AST]:
    """Yield the statements that count, which excludes imports, docstrings and blocks for type checkers."""
    if node is None or isinstance(node, list):
        return
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        for statement in node.body:
            yield from _flat(statement)
    else:
        yield node


def _describe(node: ast.AST) -> str:
    if isinstance(node, ast.Assign):
        name = ast.unparse(node.targets[0])
    elif isinstance(node, ast.AnnAssign):
        name = ast.unparse(node.target)
    else:
        name = getattr(node, "name", type(node).__name__)
    return f"{name} {sha256(ast.dump(node).encode()).hexdigest()[:12]}"


def _imported_names(tree: ast.Module, known: Mapping[str, Path]) -> dict[str, str | None]:
    """Map local names to the imported names: a name in a module, or None for a module of the product."""
    found: dict[str, str | None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                is_module = f"{node.module}.{alias.name}" in known
                if is_module or node.module in known:
                    found[alias.asname or alias.name] = None if is_module else alias.name
    return found


class _PlainNames(ast.NodeTransformer):
    """A transformer that removes imports, docstrings and the module names before dots."""

    def __init__(self, imported: Mapping[str, str | None], names: Mapping[str, str]) -> None:
        self._imported = imported
        self._names = names

    def visit(self, node: ast.AST) -> ast.AST | None:
        return None if isinstance(node, ast.Import | ast.ImportFrom) else super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_text else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.Name:
        name = self._imported.get(node.id) or node.id
        return ast.Name(self._names.get(name, name), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and self._imported.get(node.value.id, "") is None:
            return ast.Name(self._names.get(node.attr, node.attr), node.ctx)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.name = self._names.get(node.name, node.name)
        return self.generic_visit(node)


def _read_revision(revision: str, names: Mapping[str, str]) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = ["git", "archive", revision, "engine", "readers", "writers", "morrow"]
        archive = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as members:
            members.extractall(folder, filter="data")
        return read_fingerprint(Path(folder), names)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("revision", nargs="?")
    parser.add_argument("--names", type=Path)
    chosen = parser.parse_args()
    lines = chosen.names.read_text().splitlines() if chosen.names else []
    names = dict(line.split() for line in lines if line.strip())
    today = read_fingerprint(ROOT, names)
    print(f"{today.total()} statements, {sha256(repr(sorted(today.items())).encode()).hexdigest()[:16]}")
    if chosen.revision is None:
        return 0
    then = _read_revision(chosen.revision, names)
    print(*(f"- {name}" for name in sorted((then - today).elements())), sep="\n")
    print(*(f"+ {name}" for name in sorted((today - then).elements())), sep="\n")
    return int(then != today)


if __name__ == "__main__":
    sys.exit(main())
