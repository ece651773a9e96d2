"""The page of all options says what the declarations say."""

from __future__ import annotations

from pathlib import Path

import pytest

from morrow.engine.options.declared import commits, files, merging, scans
from morrow.engine.options.declaring import AnyOption
from morrow.engine.options.documentation import default_text, page

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_made_of_the_declarations() -> None:
    written = (DOCS / "options.md").read_text()
    assert written == page(), "run: python -m morrow.engine.options.documentation > docs/options.md"


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (files.TARGET_FILE_SIZE, None),
        (files.FILE_INDEX_IN_MANIFEST_THRESHOLD, "500 b"),
        (files.WRITE_BUFFER_SIZE, "256 mb"),
        (commits.COMMIT_MIN_RETRY_WAIT, "10 ms"),
        (commits.COMMIT_MAX_RETRY_WAIT, "10 s"),
        (merging.MERGE_ENGINE, "deduplicate"),
        (merging.LOOKUP_WAIT, "true"),
    ],
    ids=str,
)
def test_defaults_as_somebody_would_write_them(option: AnyOption, text: str | None) -> None:
    assert default_text(option) == text


def test_what_a_row_says() -> None:
    rows = page().splitlines()
    assert "| `consumer-id` | text |  | honoured | Consumer of a stream that is given none |" in rows
    assert any(row.startswith(f"| `{scans.SCAN_MODE.key}` | default \\| latest-full") for row in rows)
