"""A real PostgreSQL for tests: the system's server on a socket of its own, without durability."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 30
PLACES = ("/usr/lib/postgresql", "/usr/pgsql")


class PostgresUnavailable(Exception):
    """No PostgreSQL can be started; the message says why."""


@contextmanager
def postgres() -> Iterator[str]:
    """Start a server with the empty database ``postgres``, and yield its JDBC address with user and password."""
    try:
        import psycopg
    except ImportError:
        raise PostgresUnavailable("psycopg is not installed: pip install 'psycopg[binary]'") from None
    user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
    folder = Path(tempfile.mkdtemp(prefix="morrow-postgres-"))
    try:
        if user:
            shutil.chown(folder, user)
        (folder / "password").write_text("s3cret-word")
        (folder / "password").chmod(0o644)
        make = ["-D", "data", "-U", "morrow", "-A", "scram-sha-256", "--pwfile", "password", "--no-sync", "-E", "UTF8"]
        subprocess.run([_program("initdb"), *make], cwd=folder, user=user, check=True, capture_output=True)
        port = _free_port()
        serve = [
            "-D",
            "data",
            "-p",
            str(port),
            "-k",
            str(folder),
            "-c",
            "fsync=off",
            "-c",
            "listen_addresses=127.0.0.1",
        ]
        server = subprocess.Popen(
            [_program("postgres"), *serve], cwd=folder, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + START_SECONDS
            place = {"host": "127.0.0.1", "port": port, "user": "morrow", "password": "s3cret-word"}
            while True:
                try:
                    psycopg.connect(**place, dbname="postgres").close()
                    break
                except psycopg.OperationalError as error:
                    if time.monotonic() > deadline or server.poll() is not None:
                        raise PostgresUnavailable(f"the server does not start: {error}") from error
                    time.sleep(0.05)
            yield f"jdbc:postgresql://127.0.0.1:{port}/postgres?user=morrow&password=s3cret-word"
        finally:
            server.terminate()
            server.wait()
    except (OSError, subprocess.CalledProcessError, KeyError) as error:
        raise PostgresUnavailable(f"PostgreSQL cannot be started: {error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _program(name: str) -> str:
    found = [path for place in PLACES for path in Path(place).glob(f"*/bin/{name}")]
    program = shutil.which(name) if not found else str(max(found))
    if program is None:
        raise PostgresUnavailable(f"there is no {name}: install PostgreSQL")
    return program


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port
