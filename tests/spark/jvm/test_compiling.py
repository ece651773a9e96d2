"""The Java text: what a JDK says of it, and what the wheel has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

from morrow.spark.jvm.compiling import IMPORT, compilation_unit, package, sources

JARS = Path(pyspark.__file__).parent / "jars"


def test_all_classes_are_one_text_whose_package_is_named_by_its_hash() -> None:
    text = compilation_unit()
    assert text.startswith(f"package {package()};\n")
    assert [name for name in sources() if f" class {name.removesuffix('.java')} " not in text] == []
    assert "package morrow.spark.jvm;" not in text


def test_no_two_texts_mean_different_classes_by_one_name() -> None:
    """They are compiled as one, with the imports of all."""
    imported = IMPORT.findall(compilation_unit())
    names = [line.removesuffix(";\n").rpartition(".")[2] for line in imported]
    assert [line for line, name in zip(imported, names) if names.count(name) > 1] == []
    assert {"*", *(name.removesuffix(".java") for name in sources())}.isdisjoint(names)


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK here")
def test_the_text_is_java(tmp_path: Path) -> None:
    """Janino, which compiles it in Spark, is more lenient: it does not look for methods that are missing."""
    for name, text in sources().items():
        (tmp_path / name).write_text(text)
    command = ["javac", "-nowarn", "-d", str(tmp_path / "out"), "-cp", f"{JARS}/*", *sources()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
