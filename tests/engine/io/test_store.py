"""Errors of the operating system are reported the same by every library that passes them on."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import morrow
from morrow.engine.errors import MorrowError, StorageError
from morrow.engine.io.store import find_error_number, translate_system_errors
from tests.support.written import new_table

NOBODY = 65_534


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), errno.ENOSPC),
        (OSError("No space left on device (os error 28)"), errno.ENOSPC),
        (pl.exceptions.ComputeError("Too many open files (os error 24): /a/b.parquet"), errno.EMFILE),
        (pl.exceptions.ComputeError('an Err value: Os { code: 24, kind: Uncategorized, message: "x" }'), errno.EMFILE),
        (OSError("[Errno 13] Failed to open local file 'x'. Detail: [errno 13] Permission denied"), errno.EACCES),
        (RuntimeError('IO Error: Cannot open file "/a": Permission denied'), errno.EACCES),
        (RuntimeError("IO Error: Could not read from file: Stale file handle"), errno.ESTALE),
        (PermissionError("denied"), errno.EACCES),
        (TimeoutError("x"), errno.ETIMEDOUT),
        (OSError("Couldn't deserialize thrift"), None),
        (pl.exceptions.ComputeError("parquet: File out of specification"), None),
    ],
)
def test_numbers(error: BaseException, number: int | None) -> None:
    assert find_error_number(error) == number


def test_what_is_about_something_else_passes() -> None:
    with pytest.raises(StorageError, match="/t: No space left on device; make room"), translate_system_errors("/t"):
        raise OSError("No space left on device (os error 28)")
    with pytest.raises(pl.exceptions.ComputeError), translate_system_errors("/t", pl.exceptions.PolarsError):
        raise pl.exceptions.ComputeError("other")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder that other users can reach, unlike pytest's own folders."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def as_nobody() -> Iterator[None]:
    """Drop the rights of root, if this process has them."""
    if os.geteuid():
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def read_all(path: Path, **scan: object) -> None:
    morrow.clear_caches()
    morrow.open(path).scan(**scan).to_arrow()  # type: ignore[arg-type]  # arguments of scan


CLOSED = ("schema/schema-0", "snapshot/snapshot-1", "manifest", "bucket-0", "bucket-0/data-*", "schema", "snapshot")


@pytest.mark.parametrize("format", ["parquet", "orc", "avro"])
def test_a_data_file_that_may_not_be_read(folder: Path, format: str, request: pytest.FixtureRequest) -> None:
    table = new_table(folder, "a INT", options={"file.format": format})
    for number in (1, 2):
        table.append(pl.DataFrame({"a": [number]}, schema={"a": pl.Int32}))
    file = sorted(Path(table.path, "bucket-0").iterdir())[0]
    file.chmod(0)
    path = Path(table.path)
    request.getfixturevalue("as_nobody")
    for scan in ({}, {"filter": "a > 0"}):
        with pytest.raises(StorageError, match="Permission denied; give this user the permission") as told:
            read_all(path, **scan)
        assert file.name in str(told.value)


@pytest.mark.parametrize("name", CLOSED)
def test_metadata_that_may_not_be_read(folder: Path, name: str, request: pytest.FixtureRequest) -> None:
    table = new_table(folder, "a INT")
    table.append(pl.DataFrame({"a": [1]}, schema={"a": pl.Int32}))
    for file in Path(table.path).glob(name):
        file.chmod(0)
    path = Path(table.path)
    request.getfixturevalue("as_nobody")
    with pytest.raises(StorageError, match="Permission denied"):
        read_all(path)


def test_a_table_that_may_not_be_written(folder: Path, request: pytest.FixtureRequest) -> None:
    table = new_table(folder, "a INT")
    request.getfixturevalue("as_nobody")
    for change in (
        lambda: table.append([{"a": 1}]),
        lambda: table.alter.set_options({"x": "y"}),
        lambda: morrow.Catalog(folder).drop_table("db.t"),
        lambda: morrow.Catalog(folder).create_table("db.u", schema="a INT"),
    ):
        with pytest.raises(StorageError, match="Permission denied"):
            change()


@pytest.mark.parametrize("kind", ["data", "manifest", "snapshot", "schema"])
def test_a_folder_where_a_file_should_be(tmp_path: Path, kind: str) -> None:
    table = new_table(tmp_path, "a INT")
    table.append(pl.DataFrame({"a": [1]}, schema={"a": pl.Int32}))
    pattern = {"data": "bucket-0/*", "manifest": "manifest/*", "snapshot": "snapshot/snapshot-1"}.get(kind, "schema/*")
    for file in Path(table.path).glob(pattern):
        file.unlink()
        file.mkdir()
    try:
        read_all(Path(table.path))
    except MorrowError as error:
        assert "backup" not in str(error) or kind == "data"
