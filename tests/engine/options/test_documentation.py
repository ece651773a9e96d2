"""The documentation page of all options agrees with the declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.options.declarations import AnyOption
from morrow.engine.options.declared import files, maintenance, merging, scans
from morrow.engine.options.documentation import build_page, format_default

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_made_of_the_declarations() -> None:
    written = (DOCS / "options.md").read_text()
    assert written == build_page(), "run: python -m morrow.engine.options.documentation > docs/options.md"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (files.TARGET_FILE_SIZE, None),
        (files.FILE_INDEX_IN_MANIFEST_THRESHOLD, "500 b"),
        (files.WRITE_BUFFER_SIZE, "256 mb"),
        (maintenance.COMMIT_MIN_RETRY_WAIT, "10 ms"),
        (maintenance.COMMIT_MAX_RETRY_WAIT, "10 s"),
        (merging.MERGE_ENGINE, "deduplicate"),
        (merging.LOOKUP_WAIT, "true"),
    ],
    ids=str,
)
def test_defaults_as_somebody_would_write_them(option: AnyOption, text: str | None) -> None:
    assert format_default(option) == text


def test_what_a_row_says() -> None:
    rows = build_page().splitlines()
    assert "| `consumer-id` | text |  | honoured | Consumer of a stream that is given none |" in rows
    assert any(row.startswith(f"| `{scans.SCAN_MODE.key}` | default \\| latest-full") for row in rows)
