"""The Python of the workers: in local mode the driver's own, elsewhere checked first."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from morrow.engine.errors import Unsupported
from morrow.spark.job.execution import _CHECKED, check_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def context(spark: SparkSession) -> Iterator[Any]:
    """Return the session's context, as if Morrow had not checked it yet."""
    found = spark.sparkContext
    _CHECKED.discard(found)
    before = found.pythonExec
    yield found
    found.pythonExec = before


def test_local_workers_run_this_python(context: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session made without Morrow uses the first Python on the path, which may be another one."""
    monkeypatch.delenv("PYSPARK_PYTHON")
    context.pythonExec = "python3"
    check_workers(spark)
    assert context.pythonExec == sys.executable


def test_a_python_that_the_user_chose_is_kept_and_has_to_have_morrow(
    context: Any, spark: SparkSession, tmp_path: Path
) -> None:
    bare = tmp_path / "python"
    library = Path(pyspark.__file__).parent / "python" / "lib"
    path = os.pathsep.join(map(str, library.glob("*.zip")))
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -S "$@"\n')
    bare.chmod(bare.stat().st_mode | stat.S_IXUSR)
    for chosen, reason in ((bare, "without (Morrow|pyarrow)"), (tmp_path / "gone", "No such file or directory")):
        context.pythonExec = str(chosen)
        with pytest.raises(
            Unsupported, match=rf"^the workers' Python, {chosen}.*{reason}.*set PYSPARK_PYTHON"
        ) as error:
            check_workers(spark)
        assert "\n" not in str(error.value)


def test_a_python_elsewhere_that_has_morrow_is_taken(context: Any, spark: SparkSession, tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    context.pythonExec = str(other)
    check_workers(spark)
    assert context.pythonExec == str(other)
    assert context in _CHECKED
