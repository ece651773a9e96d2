"""Text for people contains no control sequences and no secrets."""

from __future__ import annotations

import logging
import pickle
import re
import time
from typing import Any

import pytest

from morrow.engine import redaction
from morrow.engine.errors import CorruptFile, FileMissing, InvalidArgument, MorrowError, StorageError, UnclearOutcome
from morrow.engine.redaction import (
    clean_text,
    escape_controls,
    escape_to_line,
    format_columns,
    get_logger,
    redact_error,
    register_secrets,
)

CANARY = "c4n4ry+Pa55/word"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.fixture(autouse=True)
def forgetful() -> Any:
    before = redaction._secrets.copy()
    redaction._secrets.clear()
    yield
    redaction._secrets.clear()
    redaction._secrets.update(before)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, naïve 東京 \U0001f468\u200d\U0001f469 \U0001f600", None),
        ("a\tb", None),
        ("\x1b]0;title\x07\x1b[31mred", "\\x1b]0;title\\x07\\x1b[31mred"),
        ("\x9b31m \x7f \r\b", "\\x9b31m \\x7f \\r\\x08"),
        ("gpj.\u202eexe \u2066 \u200f", "gpj.\\u202eexe \\u2066 \\u200f"),
        ("lone \udcff", "lone \\udcff"),
        ("first\nmorrow: all is well", "first\n  morrow: all is well"),
        ("first\n  second", None),
    ],
)
def test_what_steers_a_terminal_is_escaped(text: str, expected: str | None) -> None:
    assert escape_controls(text) == (text if expected is None else expected)
    assert escape_controls(escape_controls(text)) == escape_controls(text)
    escape_controls(text).encode()


def test_a_value_stays_on_its_line() -> None:
    assert escape_to_line("a\x1b[31mb\nc\u202e") == "a\\x1b[31mb\\nc\\u202e"


HIDING = (
    f"s3://user:{CANARY.replace('/', '')}@host/bucket",
    f"HTTPS://{CANARY.replace('/', '')}@host/x",
    f"https://h/x?X-Amz-Credential=a%2Fb&X-Amz-Signature={CANARY}&y=1",
    f"https://a.blob.core.windows.net/c/k?sv=1&sig={CANARY}",
    f"{{'aws_secret_access_key': '{CANARY}', 'region': 'x'}}",
    f'{{"aws_session_token":"{CANARY}"}}',
    f"fs.s3a.secret.key={CANARY}",
    f"AmazonS3Config {{ secret_access_key: Some(\"{CANARY}\"), token: Some('{CANARY}') }}",
    f"azure_storage_sas_token => {CANARY}",
    f"account_key: {CANARY}; try again",
    f"Authorization: Bearer {CANARY}",
    f'password = "{CANARY}"',
)


@pytest.mark.parametrize("text", HIDING)
def test_secrets_by_their_names(text: str) -> None:
    assert CANARY not in clean_text(text)
    assert CANARY.replace("/", "") not in clean_text(text)
    assert "***" in clean_text(text)
    assert clean_text(clean_text(text)) == clean_text(text)


HARMLESS = (
    "abfss://container@account.dfs.core.windows.net/wh",
    "s3://bucket/a@b/c:d",
    "/wh/db.db/t@x: the primary key ('id') must not be null; check the credentials",
    "the option 'sequence.field' = 'token' is not a column; the columns are token, secret, password",
    "s3://bucket/key?versionId=3",
    "near 'x': Invalid expression / Unexpected token; it is the body of a WHERE clause",
    "{'bucket': '4', 'merge-engine': 'first-row'}",
)


@pytest.mark.parametrize("text", HARMLESS)
def test_other_text_stays(text: str) -> None:
    assert clean_text(text) == text


def test_secrets_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    register_secrets({"aws_secret_access_key": CANARY, "aws_region": "eu-west-1"}, url="s3://u:another-one@h/b")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of the environment")
    told = clean_text(f"no {CANARY} nor c4n4ry%2BPa55%2Fword, another-one or of the environment, in eu-west-1")
    assert told == "no *** nor ***, *** or ***, in eu-west-1"


@pytest.mark.parametrize("word", ["secret", "password", "Token", "access_key"])
def test_a_secret_that_is_a_plain_word_leaves_other_text_alone(word: str) -> None:
    register_secrets({"aws_secret_access_key": word})
    plain = f"the columns are {word}, key"
    assert clean_text(plain) == plain
    assert clean_text(f"aws_secret_access_key={word}") == "aws_secret_access_key=***"


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument(f"s3://u:{'pass'}@h \x1b[2J"),
        CorruptFile("s3://u:pass@h/f", "is bad\x1b"),
        FileMissing("s3://u:pass@h/f\x1b"),
        StorageError("s3://u:pass@h/f\x1b"),
        UnclearOutcome("s3://u:pass@h/f\x1b"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_shown(error: MorrowError) -> None:
    error.add_note("s3://u:pass@h/f\x1b")
    again = pickle.loads(pickle.dumps(error))
    for one in (error, again):
        for text in (str(one), repr(one), *one.__notes__):
            assert "pass" not in text
            assert not STEERS.search(text)
            assert "u:***@h" in text or "***@h" in text
    assert str(again) == str(error)


def test_causes_are_harmless() -> None:
    register_secrets({"token": CANARY})
    inner = ValueError(f"inner {CANARY}")
    outer = RuntimeError(f"outer {CANARY}", 5)
    outer.__cause__ = inner
    outer.add_note(f"see {CANARY}")
    assert CANARY not in repr(redact_error(outer)) + repr(inner) + str(outer.__notes__)


def test_log_messages_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        get_logger("morrow.x").warning("%s: %d of %s", "a\x1b", 3, "s3://u:pass@h")
        get_logger("morrow.x").info("100%")
    assert [record.getMessage() for record in caplog.records] == ["a\\x1b: 3 of s3://***@h", "100%"]
    assert caplog.records[0].funcName == "test_log_messages_are_shown"


@pytest.mark.parametrize("unit", ["a.", "secret ", "://", "?a=", ";token", "a:b@", "\n", "secret=", "x-"])
def test_long_text_takes_no_longer_than_its_length(unit: str) -> None:
    text = unit * (300_000 // len(unit))
    began = time.perf_counter()
    clean_text(text)
    assert time.perf_counter() - began < 5


def test_of_many_columns_the_first_are_named() -> None:
    assert format_columns(["id", "v"]) == "the columns are id, v"
    assert format_columns(f"c{i}" for i in range(500)).endswith(", c38, c39 and 460 more")
