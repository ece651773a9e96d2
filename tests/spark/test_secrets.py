"""Spark stores no secrets: not in its event log, in plans, or in pickled tasks."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.s3_server import s3_server

CANARY = "c4n4ryOfTheSecret"


def forms(word: str) -> list[bytes]:
    """Return the word and its possible forms within base64."""
    plain = word.encode()
    return [plain, *(base64.b64encode(b"x" * at + plain)[4:-4] for at in range(3))]


def check_nothing_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    with s3_server() as found:
        options = {**found, "aws_access_key_id": f"{CANARY}Id", "aws_secret_access_key": CANARY}
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.secrets_driver", str(log), json.dumps(options)],
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    kept = {str(path): path.read_bytes() for path in log.rglob("*") if path.is_file()}
    kept |= {"output": done.stdout + done.stderr}
    assert any("events" in name for name in kept)
    assert any(name.endswith("pickles") for name in kept)
    for name, data in kept.items():
        assert [form for form in forms(CANARY) if form in data] == [], name


if os.environ.get("HYPOTHESIS_PROFILE") == "long":  # runs a separate driver, which takes a minute
    test_nothing_is_kept = check_nothing_is_kept
