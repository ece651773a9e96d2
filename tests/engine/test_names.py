"""Morrow's internal names, literal use of users' names, and no made-up names or patterns in other modules."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from morrow.engine import names
from morrow.engine.names import (
    col,
    cols,
    find_free_name,
    get_member,
    get_series,
    is_pattern,
    join_by_names,
    reserve_name,
    select_exactly,
)
from tests.support.hostile_names import NAMES, PATTERNS

ROOT = Path(__file__).parents[2]
PARTS = ("engine", "readers", "writers", "morrow")
SOURCES = sorted({path.resolve() for part in PARTS for path in (ROOT / part).glob("**/*.py")})
"""The source files, each once although there are links below ``morrow/``."""

FOREIGN = {
    "engine/format/avro.py": {"__branch"},  # a member of an Avro schema, not a column
    "engine/format/map_shredding.py": {"__field_mapping", "__col_", "__overflow"},  # members of structs in files
    "engine/schema/directives.py": {  # texts in comments of columns
        *("__VECTOR_FIELD", "__VECTOR", "__BLOB", "__BLOB_FIELD", "__BLOB_DESCRIPTOR_FIELD", "__BLOB_VIEW_FIELD"),
    },
    "writers/ingest/sources.py": {"__index_level_"},  # a column of pandas
    "writers/commit/attempt_log.py": {"__"},  # methods of pickle
}
"""Names with two underscores that are not internal columns of Morrow."""

TAKE_PATTERNS = {"select", "drop", "sort", "group_by", "unique", "drop_nulls", "explode", "unnest", "top_k", "sort_by"}
"""Frame methods that take a text as a pattern."""
NAMING = {"col", "exclude", "nth", "field"}
"""Polars functions that take a name."""
PLAIN = {
    "morrow/scans/system_tables.py": {"self._asked.columns"},
    "readers/system/files.py": {"stored", "keys"},
    "writers/buckets/routers.py": {"keys.columns"},
    "writers/commit/conflicts.py": {"columns"},
    "writers/operations/merge.py": {"on"},
}
"""Arguments of such methods that are not users' names, or calls of methods of other libraries."""


def test_names_of_our_own_begin_as_no_column_and_no_copy_of_a_key_column_does() -> None:
    assert reserve_name("new", "x") == "_KEY__KEY_new_x"
    assert reserve_name("new", "x") not in {"_KEY_" + name for name in (*NAMES, "x", "new_x")}
    constants = [value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)]
    ours = [value for value in constants if value.startswith(names.OWN_PREFIX)]
    assert len(set(ours)) == len(ours)
    assert len(ours) > 20


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_a_name_like_any_other(name: str) -> None:
    frame = pl.DataFrame({"id": [1, 2], "x": [5, 5], name: [7, 8]})
    assert is_pattern(name)
    assert frame.select(col(name)).to_dict(as_series=False) == {name: [7, 8]}
    assert frame.lazy().filter(col(name) + col("x") > 12).select(cols(["id", name])).collect().rows() == [(2, 8)]
    assert frame.group_by(cols([name])).len().height == 2
    assert frame.drop(select_exactly(name)).columns == ["id", "x"]
    assert get_series(frame, name).is_in([8]).to_list() == [False, True]
    rows = frame.to_struct("rows").to_frame().select(get_member(pl.col("rows"), name, frame.columns))
    assert rows.to_dict(as_series=False) == {name: [7, 8]}


@pytest.mark.parametrize("name", [*PATTERNS, "x"])
@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("semi", [(2, 8, "b")]),
        ("anti", [(1, 7, "a")]),
        ("inner", [(2, 8, "b", 0)]),
        ("left", [(1, 7, "a", None), (2, 8, "b", 0)]),
    ],
)
def test_joins_by_any_names(name: str, how: str, rows: list[tuple[object, ...]]) -> None:
    left = pl.DataFrame({"k": [1, 2], name: [7, 8], "v": ["a", "b"]})
    right = pl.DataFrame({"k": [1, 2], name: [8, 8], "w": [1, 0]})
    found = join_by_names(left, right, [name, "k"], how=how, maintain_order="left")
    assert found.columns == ["k", name, "v", "w"][: len(rows[0])]
    assert found.rows() == rows


@pytest.mark.parametrize("name", ["x", "^x", "x$", "**", ".*", "", "a.b"])
def test_other_names_stay_plain_columns(name: str) -> None:
    assert str(col(name)) == str(pl.col(name))
    assert get_member(pl.col("rows"), name, []).meta == pl.col("rows").struct.field(name).meta


def test_a_name_apart_differs_by_more_than_case() -> None:
    assert find_free_name("row", ["id"]) == "row"
    assert find_free_name("row", ["ROW", "row_"]) == "row__"


# --- no other module makes up names ---


@functools.lru_cache(maxsize=1)
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _found(path: Path) -> Iterator[str]:
    file = str(path.relative_to(ROOT))
    foreign = FOREIGN.get(file, set())
    for node in ast.walk(_tree(path)):
        place = f"{file}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in foreign:
            text = node.value
            if (text.startswith("__") and not text.endswith("__")) or (
                text.startswith("_KEY_") and text != "_KEY_STATS"
            ):
                yield f"{place}: {text!r} is made up; names beside users' columns are made in engine/names.py"
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in NAMING
            and node.args
        ):
            given = node.args[0]
            if _is_safe(given):
                continue
            called = ast.unparse(node.func)
            if called in ("pl.col", "pl.exclude", "pl.nth"):
                yield f"{place}: {called}({ast.unparse(given)}) may be a pattern; use `col` of engine/names.py"
            if called.endswith(".struct.field"):
                yield f"{place}: {called}({ast.unparse(given)}) may be a pattern; use `get_member` of engine/names.py"


def _plain(path: Path) -> Iterator[str]:
    """Find calls in which computed names are passed to a method that takes patterns."""
    for function in ast.walk(_tree(path)):
        if not isinstance(function, ast.FunctionDef):
            continue
        taken = {a.arg: a.annotation for a in (*function.args.args, *function.args.kwonlyargs)}
        made = {name for each in ast.walk(function) if isinstance(each, ast.Assign) for name in _lists_of_names(each)}
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKE_PATTERNS:
                for given in (each.value if isinstance(each, ast.Starred) else each for each in node.args):
                    listed = isinstance(given, ast.Attribute) and given.attr in ("columns", "names", "name")
                    named = isinstance(given, ast.Name) and (_is_text(taken.get(given.id)) or given.id in made)
                    if (listed or named) and not _is_ours(path, given):
                        called = f"{node.func.attr}({ast.unparse(given)})"
                        place = f"{path.relative_to(ROOT)}:{node.lineno}"
                        yield f"{place}: {called} may have patterns; use `cols` of engine/names.py"


def _lists_of_names(assigned: ast.Assign) -> Iterator[str]:
    """Yield the variable if it gets names of fields, frames or keys."""
    value, (target, *_) = assigned.value, assigned.targets
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("list", "tuple") and value.args:
        value = value.args[0]
    listed = isinstance(value, (ast.ListComp, ast.GeneratorExp)) and isinstance(value.elt, ast.Attribute)
    last = value.elt if listed else value  # type: ignore[attr-defined]  # `listed` has checked this
    names = ("name",) if listed else ("names", "columns", "partition_keys", "primary_keys", "trimmed_primary_keys")
    if isinstance(target, ast.Name) and isinstance(last, ast.Attribute) and last.attr in names:
        yield target.id


def _is_text(annotation: ast.expr | None) -> bool:
    return annotation is not None and re.search(r"\bstr\b", ast.unparse(annotation)) is not None


def _is_ours(path: Path, given: ast.expr) -> bool:
    return ast.unparse(given) in PLAIN.get(str(path.relative_to(ROOT)), set())


def _is_safe(given: ast.expr) -> bool:
    """Check whether a name is literal: a literal, a constant, an internal name, or text that begins with one."""
    if isinstance(given, ast.JoinedStr):
        return isinstance(given.values[0], ast.Constant) and _is_safe(given.values[0])
    if isinstance(given, ast.Constant):
        return isinstance(given.value, str) and not given.value.startswith(("^", "*"))
    if isinstance(given, ast.Call):
        return ast.unparse(given.func) == "reserve_name" or ast.unparse(given) == "str(i)"  # a number
    return isinstance(given, ast.Name) and given.id.isupper()


@pytest.mark.parametrize("part", PARTS)
def test_no_other_module_makes_up_names_or_hands_users_names_to_polars_as_patterns(part: str) -> None:
    paths = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == part]
    assert len(paths) > 20
    paths = [path for path in paths if path != ROOT / "engine/names.py"]
    assert [line for path in paths for line in (*_found(path), *_plain(path))] == []


def test_the_search_finds_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "x.py").write_text('A = "__row"\npl.col(name)\npl.col("x")\nrow.struct.field(field.name)\n')
    assert len(list(_found(tmp_path / "x.py"))) == 3
    (tmp_path / "y.py").write_text(
        "def f(frame, keys: list[str], exprs: list[pl.Expr]):\n"
        "    frame.select(*keys).drop(plan.columns).sort('a', exprs).select(exprs)\n"
    )
    assert len(list(_plain(tmp_path / "y.py"))) == 2
    (tmp_path / "z.py").write_text(
        "def f(frame, schema):\n"
        "    keys, names = list(schema.partition_keys), []\n"
        "    keys = list(schema.partition_keys)\n"
        "    names = [field.name for field in schema.fields]\n"
        "    def g(): return frame.select(keys).select(names).select(['x'])\n"
    )
    assert len(list(_plain(tmp_path / "z.py"))) == 2
