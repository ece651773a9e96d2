"""The error for a missing library names the extra that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import IntType, VarBinaryType
from morrow.engine.plugins import require_extra
from tests.support.aggregates import function

WITHOUT = """
import sys
sys.modules.update(pandas=None, pyspark=None)
import morrow
for use in (lambda: morrow.scan, lambda: morrow.spark.catalog, lambda: morrow.spark.session):
    try:
        use()
    except morrow.MorrowError as error:
        print(error)
"""


def test_the_command_is_told() -> None:
    with (
        pytest.raises(Unsupported, match=r"to_pandas without no_such is not supported; run: pip install 'morrow\[p\]'"),
        require_extra("to_pandas", "no_such", "p"),
    ):
        import no_such.inner  # type: ignore[import-not-found]  # the import is tested
    with pytest.raises(ModuleNotFoundError), require_extra("to_pandas", "other", "p"):
        import no_such  # noqa: F401  # type: ignore[import-not-found]  # the import is tested


def test_a_function_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasketches", None)
    for name in ("hll_sketch", "theta_sketch"):
        with pytest.raises(Unsupported, match=rf"function {name} without datasketches .*'morrow\[sketches\]'"):
            function(name, VarBinaryType())
    assert function("sum", IntType())


def test_spark_without_pyspark() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    told = "morrow.spark without pyspark is not supported; run: pip install 'morrow[spark]'"
    assert done.stdout.splitlines() in ([told, told], [told])
