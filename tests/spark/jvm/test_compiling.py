"""The Java text: what a JDK says of it, and what the wheel has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pyspark
import pytest

from morrow.spark.jvm.compiling import IMPORT, PACKAGE, SCANS, compilation_unit, package, sources
from morrow.spark.jvm.keeping import KEPT

JARS = Path(pyspark.__file__).parent / "jars"


TEXTS = (PACKAGE, SCANS, KEPT)
FOLDERS = pytest.mark.parametrize("folder", TEXTS)


@FOLDERS
def test_all_classes_are_one_text_whose_package_is_named_by_its_hash(folder: str) -> None:
    text = compilation_unit(folder)
    assert text.startswith(f"package {package(folder)};\n")
    assert [name for name in sources(folder) if f" class {name.removesuffix('.java')} " not in text] == []
    assert f"package {folder};" not in text


@FOLDERS
def test_no_two_texts_mean_different_classes_by_one_name(folder: str) -> None:
    """They are compiled as one, with the imports of all."""
    imported = IMPORT.findall(compilation_unit(folder))
    names = [line.removesuffix(";\n").rpartition(".")[2] for line in imported]
    assert [line for line, name in zip(imported, names) if names.count(name) > 1] == []
    assert {"*", *(name.removesuffix(".java") for name in sources(folder))}.isdisjoint(names)


@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK here")
def test_the_text_is_java(tmp_path: Path) -> None:
    """Janino, which compiles it in Spark, is more lenient: it does not look for methods that are missing."""
    for folder in TEXTS:
        (tmp_path / folder).mkdir()
        for name, text in sources(folder).items():
            (tmp_path / folder / name).write_text(text)
    texts = [str(path) for path in tmp_path.rglob("*.java")]
    command = ["javac", "-nowarn", "-d", str(tmp_path / "out"), "-cp", f"{JARS}/*", *texts]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
