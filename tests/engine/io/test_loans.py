"""Secrets that one process lends to others of its user: as long as it lives, and not a moment longer."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from morrow.engine.io import loans, secrets
from morrow.engine.io.secrets import StorageOptions

CREDENTIALS = {"aws_access_key_id": "c4n4ry-of-the-id", "aws_secret_access_key": "c4n4ry-of-the-secret"}

LENDING = f"""
import pickle, sys
from morrow.engine.io.secrets import StorageOptions
print(pickle.dumps(StorageOptions({{**{CREDENTIALS}, "aws_region": "x"}}, "s3://lake").lent()).hex(), flush=True)
sys.stdin.read()
"""


def lender() -> tuple[subprocess.Popen[bytes], bytes]:
    """Starts a process that lends, and returns what it pickled."""
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", LENDING], stdin=pipe, stdout=pipe, env=dict(os.environ))
    assert process.stdout is not None
    return process, bytes.fromhex(process.stdout.readline().decode())


@pytest.mark.skipif(not loans.IS_LINUX, reason="elsewhere it is a file, which is left until the next one lends")
def test_what_a_killed_process_has_lent_is_gone_with_it() -> None:
    process, data = lender()
    try:
        assert b"c4n4ry" not in data
        assert pickle.loads(data) == {**CREDENTIALS, "aws_region": "x"}
        assert not list(Path(loans.IN_MEMORY).glob(f"{loans.LOANS}{process.pid}-*"))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert pickle.loads(data) == {"aws_region": "x"}


@pytest.fixture
def nothing_lent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A process that has lent nothing so far; the folder in which it would make files."""
    monkeypatch.setattr(loans, "_lent", {})
    monkeypatch.setattr(loans, "IN_MEMORY", str(tmp_path))
    return tmp_path


def test_nobody_changes_a_loan_and_no_other_file_is_taken_for_one(nothing_lent: Path) -> None:
    place = loans.lend("name", CREDENTIALS)
    assert loans.lend("name", {}) == place
    assert loans.borrowed("name", place) == CREDENTIALS
    if loans.IS_LINUX:
        with pytest.raises(OSError, match=r"not permitted|denied"), Path(place).open("r+b") as file:
            file.write(b"{}")
        assert loans.borrowed("other", place) == {}
        with (nothing_lent / "x").open("w+") as file:
            file.write('{"a": "b"}')
            file.flush()
            assert loans.borrowed("name", f"/proc/{os.getpid()}/fd/{file.fileno()}") == {}
    assert loans.borrowed("name", "/proc/0/fd/0") == loans.borrowed("name", "") == {}


def test_a_file_is_for_this_user_and_removed_by_its_owner(nothing_lent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loans, "IS_LINUX", False)
    path = Path(loans.lend("name", CREDENTIALS))
    assert path.parent.parent == nothing_lent
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert loans.borrowed("name", str(path)) == CREDENTIALS
    path.chmod(0o644)  # others may read it, or have written it
    assert loans.borrowed("name", str(path)) == {}
    loans._take_back(os.getpid() + 1)
    assert path.exists()
    loans._take_back(os.getpid())
    assert not path.parent.exists()
    assert loans.borrowed("name", str(path)) == {}


def test_a_worker_of_spark_lends_as_long_as_the_process_above_it(
    nothing_lent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(loans.OF_WORKERS, "1")
    path = Path(loans.lend("name", CREDENTIALS))
    assert path.parent.name.startswith(f"{loans.LOANS}{os.getppid()}-{loans._born(os.getppid())}-")
    assert path.parent.parent == nothing_lent


def test_what_processes_that_are_gone_have_lent_is_removed(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    own = f"morrow-secrets-{os.getpid()}-{loans._born(os.getpid())}-x"
    before_it = f"morrow-secrets-{os.getpid()}-1-x"  # the same number was another process's once
    for name in (f"morrow-secrets-{gone.pid}-1-x", own, before_it, "morrow-secrets-y", "other"):
        (tmp_path / name).mkdir()
    loans.sweep(str(tmp_path))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {own, "morrow-secrets-y", "other"} | (set() if loans.IS_LINUX else {before_it})


def test_the_names_of_pickles_tell_nothing() -> None:
    name = secrets._keep(CREDENTIALS)
    assert "c4n4ry" not in name
    assert StorageOptions(CREDENTIALS).lent() == CREDENTIALS
