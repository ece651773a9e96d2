"""`translate_errors` turns errors of Polars and Arrow into Morrow's errors once and keeps the cause."""

from __future__ import annotations

import errno

import polars as pl
import pyarrow as pa
import pytest

from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, StorageError, Unsupported
from morrow.readers.files import translate_errors


@pytest.mark.parametrize(
    ("raised", "becomes", "message"),
    [
        (pl.exceptions.ComputeError("bad page\n\nplan: ..."), CorruptFile, "f: bad page; restore"),
        (pl.exceptions.SchemaError("dtype"), Unsupported, r"f: a file whose types are not the table's \(dtype\)"),
        (pa.ArrowInvalid("not ORC"), CorruptFile, "f: not ORC"),
        (OSError("Failed to parse the postscript"), CorruptFile, "f: Failed"),
        (pa.ArrowNotImplementedError("LZO"), Unsupported, "LZO"),
        (FileNotFoundError(errno.ENOENT, "gone", "data-1"), FileMissing, "data-1: no such file"),
        (PermissionError(errno.EACCES, "denied"), StorageError, "denied"),
        (OSError("Generic S3 error: HTTP error"), StorageError, "f: Generic S3 error"),
        (pa.ArrowException("Time zone file X does not exist"), Unsupported, "time zone database"),
    ],
)
def test_errors(raised: Exception, becomes: type[Exception], message: str) -> None:
    with pytest.raises(becomes, match=message) as caught, translate_errors("f"):
        raise raised

    assert caught.value.__cause__ is raised


@pytest.mark.parametrize("error", [CorruptFile("g", "bad"), InvalidArgument("no"), KeyboardInterrupt()])
def test_errors_that_pass(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, translate_errors("f"):
        raise error

    assert caught.value is error
