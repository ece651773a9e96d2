"""Secrets of stores: absent from pickles and reprs, and available again in the process that unpickles."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import morrow
from morrow.engine.errors import InvalidArgument, StorageError, Unsupported
from morrow.engine.io import secrets
from morrow.engine.io.secrets import StorageOptions
from morrow.spark.job.sections import ScanJob
from morrow.spark.job.wire import TableAccess
from morrow.spark.writing.tasks import WriteJob
from morrow.writers.target import WriteTarget
from tests.support.s3_server import s3_server
from tests.support.written import rows

ID, SECRET = "c4n4ry-of-the-id", "c4n4ry/of+the=secret"
CREDENTIALS = {"aws_access_key_id": ID, "aws_secret_access_key": SECRET}


@pytest.fixture
def options() -> Iterator[dict[str, str]]:
    with s3_server() as found:
        yield {**found, **CREDENTIALS}


@pytest.fixture
def table(options: dict[str, str]) -> morrow.Table:
    made = morrow.Catalog("s3://lake/wh", storage_options=options).create_table("db.t", schema="a INT")
    made.append([{"a": 1}])
    return made


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to be another process, which does not know the secrets kept by this one."""
    monkeypatch.setattr(secrets, "_held", {})
    monkeypatch.setattr(secrets, "_resolver", None)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", secrets.ENVIRONMENT):
        monkeypatch.delenv(name, raising=False)


def pickled(table: morrow.Table, options: dict[str, str]) -> dict[str, bytes]:
    """Pickle all objects that a user or Spark may pickle."""
    target = WriteTarget.of(table._metadata)
    scan = table.scan(filter="a > 0")
    made: dict[str, Any] = {
        "catalog": morrow.Catalog("s3://lake/wh", storage_options=options),
        "table": table,
        "scan": scan,
        "plan": scan.plan,
        "changes": table.changes(),
        "branch": table.on_branch("main"),
        "tags": table.tags,
        "job": ScanJob.of(scan.plan, scan.store),
        "write job": WriteJob(TableAccess.of(target), ("a",)),
        "options": StorageOptions(options),
    }
    return {name: pickle.dumps(value) for name, value in made.items()}


def test_no_pickle_and_no_repr_has_them(table: morrow.Table, options: dict[str, str]) -> None:
    for name, data in pickled(table, options).items():
        assert b"c4n4ry" not in data, name
        assert "c4n4ry" not in repr(pickle.loads(data)), name
    for made in (table, table._metadata, table._metadata.store, table._metadata.store.storage_options, table.scan()):
        assert "c4n4ry" not in repr(made) + str(vars(made).get("storage_options", ""))


def test_this_process_finds_them_again(table: morrow.Table) -> None:
    again = pickle.loads(pickle.dumps(table))
    assert rows(again) == [(1,)]
    assert rows(copy.deepcopy(again)) == [(1,)]


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.usefixtures("elsewhere")
def test_what_is_missing_is_told(table: morrow.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(table)
    monkeypatch.setattr(secrets, "_held", {})
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("morrow.engine.io.object_store.ObjectStore._ask", refused)
    with pytest.raises(StorageError, match="aws_access_key_id, aws_secret_access_key were left out"):
        pickle.loads(data)._metadata.store.read("x")


def refused(self: Any, *_: object) -> None:
    raise StorageError(self._what_to_do())


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("by", ["environment", "resolver", "named resolver"])
def test_others_find_them(table: morrow.Table, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    data = pickle.dumps(table)
    monkeypatch.setattr(secrets, "_held", {})
    asked: list[str] = []
    if by == "environment":
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name.upper(), value)
    elif by == "resolver":
        morrow.secrets.register(lambda url: (asked.append(url), CREDENTIALS)[1])
    else:
        monkeypatch.setenv("MORROW_SECRETS", "tests.engine.io.test_secrets:found")
    assert rows(pickle.loads(data)) == [(1,)]
    assert asked == (["s3://lake"] if by == "resolver" else [])


def found(_url: str) -> dict[str, str]:
    return CREDENTIALS


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("named", ["nowhere", "no.such.module:f", "tests.engine.io.test_secrets:ID", "os:nothing"])
def test_a_resolver_that_is_none(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    data = pickle.dumps(StorageOptions(CREDENTIALS, "s3://lake"))
    monkeypatch.setattr(secrets, "_held", {})
    monkeypatch.setenv("MORROW_SECRETS", named)
    with pytest.raises(InvalidArgument, match="MORROW_SECRETS"):
        pickle.loads(data)
    with pytest.raises(InvalidArgument):
        morrow.secrets.register("x")
    morrow.secrets.register(lambda _: {"a": 1})
    with pytest.raises(InvalidArgument, match="mapping of text"):
        pickle.loads(data)


def test_passwords_in_urls_and_proxies_are_secrets() -> None:
    options = StorageOptions({"proxy_url": "http://u:c4n4ry-1@proxy:1", "token": "c4n4ry-2"}, "https://u:c4n4ry-3@h")
    data = pickle.dumps(options)
    assert b"c4n4ry" not in data
    assert "c4n4ry" not in repr(options)
    assert pickle.loads(data) == options


def test_tables_in_memory_do_not_pickle() -> None:
    table = morrow.Catalog("memory:///wh").create_table("db.t", schema="a INT")
    with pytest.raises(Unsupported, match="pickling a table in memory"):
        pickle.dumps(table)


# Secrets that a process lends to other processes of its user, only as long as it lives.

SHARED_CREDENTIALS = {"aws_access_key_id": "c4n4ry-of-the-id", "aws_secret_access_key": "c4n4ry-of-the-secret"}

LENDING = f"""
import pickle, sys
from morrow.engine.io.secrets import StorageOptions
print(pickle.dumps(StorageOptions({{**{SHARED_CREDENTIALS}, "aws_region": "x"}}, "s3://lake").lent()).hex(), flush=True)
sys.stdin.read()
"""


def lender() -> tuple[subprocess.Popen[bytes], bytes]:
    """Start a process that lends, and return what it pickled."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", LENDING], stdin=pipe, stdout=pipe, env=dict(os.environ))
    assert process.stdout is not None
    return process, bytes.fromhex(process.stdout.readline().decode())


@pytest.mark.skipif(not secrets.IS_LINUX, reason="elsewhere it is a file, which is left until the next one lends")
def test_what_a_killed_process_has_lent_is_gone_with_it() -> None:
    process, data = lender()
    try:
        assert b"c4n4ry" not in data
        assert pickle.loads(data) == {**SHARED_CREDENTIALS, "aws_region": "x"}
        assert not list(Path(secrets.IN_MEMORY).glob(f"{secrets.SHARED_PREFIX}{process.pid}-*"))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert pickle.loads(data) == {"aws_region": "x"}


@pytest.fixture
def nothing_lent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Let this process have lent nothing so far, and return the folder in which it would make files."""
    monkeypatch.setattr(secrets, "_shared", {})
    monkeypatch.setattr(secrets, "IN_MEMORY", str(tmp_path))
    return tmp_path


def test_nobody_changes_a_loan_and_no_other_file_is_taken_for_one(nothing_lent: Path) -> None:
    place = secrets.share_secrets("name", SHARED_CREDENTIALS)
    assert secrets.share_secrets("name", {}) == place
    assert secrets.read_shared_secrets("name", place) == SHARED_CREDENTIALS
    if secrets.IS_LINUX:
        with pytest.raises(OSError, match=r"not permitted|denied"), Path(place).open("r+b") as file:
            file.write(b"{}")
        assert secrets.read_shared_secrets("other", place) == {}
        with (nothing_lent / "x").open("w+") as file:
            file.write('{"a": "b"}')
            file.flush()
            assert secrets.read_shared_secrets("name", f"/proc/{os.getpid()}/fd/{file.fileno()}") == {}
    assert secrets.read_shared_secrets("name", "/proc/0/fd/0") == secrets.read_shared_secrets("name", "") == {}


def test_a_file_is_for_this_user_and_removed_by_its_owner(nothing_lent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "IS_LINUX", False)
    path = Path(secrets.share_secrets("name", SHARED_CREDENTIALS))
    assert path.parent.parent == nothing_lent
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert secrets.read_shared_secrets("name", str(path)) == SHARED_CREDENTIALS
    path.chmod(0o644)  # others may read or write it
    assert secrets.read_shared_secrets("name", str(path)) == {}
    secrets._remove_shares(os.getpid() + 1)
    assert path.exists()
    secrets._remove_shares(os.getpid())
    assert not path.parent.exists()
    assert secrets.read_shared_secrets("name", str(path)) == {}


def test_a_worker_of_spark_lends_as_long_as_the_process_above_it(
    nothing_lent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(secrets.OF_WORKERS, "1")
    path = Path(secrets.share_secrets("name", SHARED_CREDENTIALS))
    assert path.parent.name.startswith(
        f"{secrets.SHARED_PREFIX}{os.getppid()}-{secrets._find_start_time(os.getppid())}-"
    )
    assert path.parent.parent == nothing_lent


def test_what_processes_that_are_gone_have_lent_is_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    own = f"morrow-secrets-{os.getpid()}-{secrets._find_start_time(os.getpid())}-x"
    before_it = f"morrow-secrets-{os.getpid()}-1-x"  # another process once had the same number
    for name in (f"morrow-secrets-{gone.pid}-1-x", own, before_it, "morrow-secrets-y", "other"):
        (tmp_path / name).mkdir()
    secrets.remove_stale_shares(str(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {own, "morrow-secrets-y", "other"} | (set() if secrets.IS_LINUX else {before_it})


def test_the_names_of_pickles_tell_nothing() -> None:
    name = secrets._keep_secrets(SHARED_CREDENTIALS)
    assert "c4n4ry" not in name
    assert StorageOptions(SHARED_CREDENTIALS).lent() == SHARED_CREDENTIALS
