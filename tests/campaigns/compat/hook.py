"""A pytest plugin that records how pypaimon's tests end.

Modules and names of pypaimon that `morrow.compat.pypaimon` does not have are placeholders, which raise `Internal` when
they are used. So a file that imports some of them still runs its other tests.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import FrozenInstanceError
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

import pytest

import morrow.compat.pypaimon as compat
from morrow.engine.errors import Unsupported

RECORD, OWN = "MORROW_COMPAT_RECORD", "MORROW_COMPAT_OWN"
PASSED, MORE, REFUSED, INTERNAL, FAILED, SKIPPED = "passed", "answered", "refused", "internal", "failed", "skipped"
OUTCOMES = (PASSED, MORE, REFUSED, INTERNAL, FAILED, SKIPPED)
MAX_SECONDS = 180
PREFIX = f"{compat.__name__}."
ATTRIBUTES = (
    "CURRENT_VERSION",
    "base_table",
    "branch",
    "branch_path",
    "copy_with_branch",
    "create_row_key_extractor",
    "fast_forward_validate",
    "file_io",
    "file_scanner",
    "file_store_commit",
    "file_store_write",
    "follow_up_scanner",
    "index_adds",
    "normalize_branch",
    "plan_for_write",
    "row_key_extractor",
    "tag_path",
    "test",
    "to_arrow",
    "to_avro_type",
    "validate_branch",
    "value_stats",
    "value_stats_cols",
    "with_dynamic_bucket_index",
)
"""Attributes of pypaimon's objects that its documents do not name."""
LIBRARIES = ("pypaimon_rust", "ray", "torch")
"""Libraries that some tests need."""


class Internal(Exception):
    """A use of something that is not pypaimon's public interface."""


class _Placeholder(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Internal(f"{cls.__name__}.{name}")

    def __setattr__(cls, name: str, value: object) -> NoReturn:
        raise Internal(f"{cls.__name__}.{name}")

    def __getitem__(cls, _: object) -> type:
        return cls

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise Internal(cls.__name__)


PLACEHOLDERS: set[str] = set()


def _make_placeholder(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    PLACEHOLDERS.add(name)
    return _Placeholder(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Placeholders of modules, and of the names that modules of the public interface lack."""

    def __init__(self) -> None:
        self.public = next(finder for finder in sys.meta_path if isinstance(finder, compat._PathFinder))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        name = fullname.removeprefix(PREFIX)
        if name == fullname or name in compat._HOMES:
            return None
        return ModuleSpec(fullname, self, is_package=name in compat._PACKAGES or name not in compat._PATHS)

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002
        return None

    def exec_module(self, module: ModuleType) -> None:
        self.public.exec_module(module)
        module.__dict__["__getattr__"] = _make_placeholder


def pytest_configure() -> None:
    if OWN in os.environ:
        return
    sys.meta_path.insert(0, _Finder())
    own = compat.__getattr__

    def get(name: str) -> Any:
        try:
            return own(name)
        except AttributeError:
            return _make_placeholder(name)

    compat.__dict__["__getattr__"] = get


def _classify(error: BaseException | None) -> str:
    if str(error) == "NotImplementedError not raised":
        return MORE
    while error is not None:
        if isinstance(error, Internal) or _is_private(error):
            return INTERNAL
        if isinstance(error, Unsupported):
            return REFUSED
        error = error.__cause__ or error.__context__
    return FAILED


def _is_private(error: BaseException) -> bool:
    """Return whether a test looked for a private attribute, or for one of an internal module."""
    if any(part in str(error) for part in (__name__, "__init__() ", "Missing required argument")):
        return True  # a comparison with a placeholder; an object that pypaimon's own methods make
    if isinstance(error, FrozenInstanceError):
        return True
    if isinstance(error, AttributeError):
        name = error.name or str(error).rpartition("attribute '")[2].rstrip("'")
        if str(error).partition("'")[2].partition("'")[0] in PLACEHOLDERS:
            return True
        return name.startswith("_") or name in ATTRIBUTES or PREFIX in str(error)
    return isinstance(error, ModuleNotFoundError) and PREFIX in str(error)


def _record(file: str, test: str, outcome: str, reason: str = "") -> None:
    with Path(os.environ[RECORD]).open("a") as lines:
        lines.write(json.dumps({"file": file, "test": test, "outcome": outcome, "reason": reason}) + "\n")


def _raise_timeout(_: int, __: FrameType | None) -> NoReturn:
    raise TimeoutError(f"took longer than {MAX_SECONDS} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    signal.signal(signal.SIGALRM, _raise_timeout)
    signal.alarm(MAX_SECONDS)
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report = yield
    said = getattr(item, "_morrow_said", None)
    if said is None and (report.when == "call" or not report.passed):
        outcome, reason = PASSED if report.passed else SKIPPED, ""
        if report.failed:
            error = None if call.excinfo is None else call.excinfo.value
            missing = isinstance(error, ModuleNotFoundError) and error.name in LIBRARIES
            outcome = SKIPPED if missing else _classify(error)
            reason = f"{type(error).__name__}: {error}"[:300]
        item._morrow_said = outcome  # type: ignore[attr-defined]
        _record(item.location[0], item.nodeid.partition("::")[2], outcome, reason)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Record every test of a file that cannot be imported."""
    report = yield
    if report.failed and isinstance(collector, pytest.Module):
        text = str(report.longrepr)
        missing = any(f"No module named '{name}" in text for name in LIBRARIES)
        outcome = SKIPPED if missing else INTERNAL if Internal.__name__ in text or PREFIX in text else FAILED
        for name in _list_tests(collector.path):
            _record(str(collector.path), name, outcome, text.strip().splitlines()[-1][:300])
    return report


def _list_tests(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            yield node.name
