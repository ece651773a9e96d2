"""Names that control a terminal or contain a password, passed through the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

import morrow
from tests.cli.conftest import Run

EVIL = "e\x1b]0;x\x07\x9b31m\u202e\rvil"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.fixture
def evil(tmp_path: Path) -> str:
    """Make a table whose name, columns, partition, comments, options, tag and branch are all `EVIL`."""
    catalog = morrow.Catalog(tmp_path / EVIL)
    made = catalog.create_table(
        f"d{EVIL}.t{EVIL}",
        schema={EVIL: "STRING", f"p{EVIL}": "STRING"},
        partition_keys=[f"p{EVIL}"],
        options={f"x{EVIL}": EVIL},
        comment=EVIL,
    )
    made.append(pl.DataFrame({EVIL: [EVIL], f"p{EVIL}": [EVIL]}))
    made.tags.create(f"v{EVIL}")
    made.branches.create(f"b{EVIL}", tag=f"v{EVIL}")
    return made.path


SHOWN = (
    *(["read"], ["describe"], ["snapshots"], ["files"], ["explain"], ["tags"], ["branches"], ["orphans"], ["repair"]),
    *(
        ["system", "files"],
        ["system", "options"],
        ["system", "schemas"],
        ["system", "tags"],
        ["explain", "-w", "1 = 1"],
    ),
    *(["expire", "--retain-max", "1"], ["tag", f"w{EVIL}"], ["branch", f"c{EVIL}"], ["compact", "--full"]),
)


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_nothing_shown_steers_a_terminal(run: Run, evil: str, words: list[str]) -> None:
    done = run(words[0], evil, *words[1:])
    assert (done.code, STEERS.findall(done.out + done.err)) == (0, [])


FAILING = (
    *(["read", "-c", f"no{EVIL}"], ["read", "-w", f"{EVIL} ="], ["read", "--tag", EVIL], ["read", "--branch", EVIL]),
    *(["tag", f"v{EVIL}"], ["branch", f"b{EVIL}"], ["rollback", "--tag", EVIL], ["system", EVIL]),
    *(["delete", "-w", f'"{EVIL}" + 1'], ["append", EVIL], ["expire", "--older-than", EVIL], ["read", "--as-of", EVIL]),
)


@pytest.mark.parametrize("words", FAILING, ids=lambda words: words[0])
def test_no_error_steers_a_terminal(run: Run, evil: str, words: list[str]) -> None:
    done = run(words[0], evil, *words[1:])
    assert done.code != 0
    assert STEERS.findall(done.out + done.err) == []
    assert len(done.err.splitlines()) >= 1


def test_contents_of_files_in_errors(run: Run, evil: str) -> None:
    schema = Path(evil, "schema/schema-0")
    node = json.loads(schema.read_text())
    node["fields"][0]["type"] = EVIL
    schema.write_text(json.dumps(node))
    done = run("read", evil)
    assert done.code == 1
    assert STEERS.findall(done.err) == []


@pytest.mark.parametrize("form", ["json", "csv"])
def test_data_stay_exact(run: Run, evil: str, form: str) -> None:
    text = run("read", evil, "--format", form).data.decode()
    if form == "json":
        assert json.loads(text) == {EVIL: EVIL, f"p{EVIL}": EVIL}
    else:
        assert text.count(EVIL) == 4


@pytest.mark.parametrize(
    "url",
    [
        "s3://user:c4n4ry@bucket/db.db/t",
        "nope://user:c4n4ry@bucket/t",
        "https://user:c4n4ry@localhost:1/t?X-Amz-Signature=c4n4ry",
        "/no/such?sig=c4n4ry",
    ],
)
def test_a_password_in_a_url_is_not_repeated(run: Run, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("AWS_ENDPOINT_URL", "http://localhost:1"), ("AWS_SECRET_ACCESS_KEY", "c4n4ry-of-it")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("obstore.store.from_url", _impatient)
    done = run("read", url)
    assert done.code == 1
    assert "c4n4ry" not in done.out + done.err


def _impatient(url: str, **given: object) -> object:
    """Open a store that does not retry."""
    from obstore import store

    of = store.HTTPStore.from_url if url.startswith("http") else store.S3Store.from_url
    more = {name: value for name, value in given.items() if value is not None}
    return of(url, **{**more, "retry_config": {"max_retries": 0}})  # type: ignore[arg-type]  # arguments of from_url
