"""The compiled Java classes in a Spark session."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark
import pytest

from morrow.spark.jvm.classes import (
    IMPORT,
    PACKAGE,
    SCANS,
    _is_extensible,
    build_compilation_unit,
    get_package,
    read_sources,
)
from morrow.spark.jvm.file_scans import INDEX_FOLDER
from tests.support.spark_cluster import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def test_class_loaders_that_take_jars(spark: SparkSession) -> None:
    """The system class loader takes no jars: if Spark runs in it, only threads that call ADD JAR find the jar."""
    session: Any = spark
    assert _is_extensible(session._jsparkSession.sharedState().jarClassLoader())
    assert not _is_extensible(session._jvm.java.lang.ClassLoader.getSystemClassLoader())
    assert not _is_extensible(cast("Any", None))


# The Java sources, checked by a JDK and against the wheel.

JARS = Path(pyspark.__file__).parent / "jars"


TEXTS = (PACKAGE, SCANS, INDEX_FOLDER)
FOLDERS = pytest.mark.parametrize("folder", TEXTS)


@FOLDERS
def test_all_classes_are_one_text_whose_package_is_named_by_its_hash(folder: str) -> None:
    text = build_compilation_unit(folder)
    assert text.startswith(f"package {get_package(folder)};\n")
    assert [name for name in read_sources(folder) if f" class {name.removesuffix('.java')} " not in text] == []
    assert f"package {folder};" not in text


@FOLDERS
def test_no_two_texts_mean_different_classes_by_one_name(folder: str) -> None:
    """The sources are compiled as a single file with all imports."""
    imported = IMPORT.findall(build_compilation_unit(folder))
    names = [line.removesuffix(";\n").rpartition(".")[2] for line in imported]
    assert [line for line, name in zip(imported, names) if names.count(name) > 1] == []
    assert {"*", *(name.removesuffix(".java") for name in read_sources(folder))}.isdisjoint(names)


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK here")
def test_the_text_is_java(tmp_path: Path) -> None:
    """Spark compiles the sources with Janino, which is more lenient and does not check for missing methods."""
    for folder in TEXTS:
        (tmp_path / folder).mkdir()
        for name, text in read_sources(folder).items():
            (tmp_path / folder / name).write_text(text)
    texts = [str(path) for path in tmp_path.rglob("*.java")]
    options = [*(f"-J{option}" for option in SHORT_LIVED.split()), "-nowarn", "-proc:none"]
    command = ["javac", *options, "-d", str(tmp_path / "out"), "-cp", f"{JARS}/*", *texts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
