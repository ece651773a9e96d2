"""`Table.inspect`: one page that needs no network, for one file or thousands, with any names."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest

import morrow
from morrow.doctor import inspection
from morrow.doctor.charts import COLUMNS, MAX_BOXES, LiveFiles, build_trees, read_live_files
from morrow.engine.errors import ColumnNotFound, InvalidArgument
from morrow.engine.io.local import disable_fsync
from tests.cli.conftest import Run, run
from tests.support.browser import Browser, needs_browser
from tests.support.written import new_table

__all__ = ["run"]

HOSTILE = "<script>alert(1)</script>\"'&`"
VOID = ("meta",)


class Checked(HTMLParser):
    """A parser which checks that elements are closed in order and that none runs or fetches anything."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert tag not in ("script", "link", "img", "iframe", "object")
        assert not [name for name, _ in attrs if name in ("src", "href") or name.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> morrow.Table:
    """Make a table with a key, partitions, vectors, tags, a branch, and names that are markup."""
    with disable_fsync():
        made = new_table(
            tmp_path_factory.mktemp("inspected"),
            f"id INT, `{HOSTILE.replace('`', '')}` STRING, day STRING",
            keys=["day", "id"],
            by=["day"],
            options={"bucket": 2, "deletion-vectors.enabled": True, "comment": HOSTILE},
            name="o",
        )
        other = made.schema.names[1]
        for start in (0, 5, 10):
            made.append([{"id": i, other: HOSTILE, "day": HOSTILE.replace("/", "")} for i in range(start, start + 10)])
        made.tags.create(HOSTILE.replace("/", ""), 1)
        made.branches.create("trial", snapshot=2)
    return made


def test_the_page_is_whole_and_escaped(orders: morrow.Table, tmp_path: Path) -> None:
    page = orders.inspect(where="id < 3")
    page.save(tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()

    tags = Checked(html).seen
    assert {"svg", "rect", "section", "h2"} <= set(tags)
    assert "prefers-color-scheme: dark" in html
    for title in ("Health", "Snapshots", "Merge trees", "Partitions by size", "Files by age", "The next compaction"):
        assert f"<h2>{title}</h2>" in html
    assert "id &lt; 3" in html and "alert(1)&lt;" in html
    assert re.search(r"https?://", html.split("</head>")[1].replace("http://www.w3.org", "")) is None
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]
    assert page._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert str(page).splitlines()[2] == "  healthy: nothing was found"


def test_wrong_calls(orders: morrow.Table, tmp_path: Path) -> None:
    with pytest.raises(ColumnNotFound):
        orders.inspect(where="nothing = 1")
    with pytest.raises(InvalidArgument, match="name a file in a folder"):
        orders.inspect().save(tmp_path / "absent" / "report.html")


def test_ten_thousand_files_are_some_hundred_boxes(orders: morrow.Table) -> None:
    known = read_live_files(orders._metadata, orders._metadata.latest_snapshot())
    row = known.frame.row(0, named=True)
    rows = [{**row, "bucket": i % 16, "level": i % 3, "sequence": i} for i in range(10_000)]
    many = LiveFiles(known.schema, pl.DataFrame(rows, schema=COLUMNS), keyed=True)

    drawn = build_trees(many, "here")
    assert drawn.count("<rect") < MAX_BOXES * 2
    assert "+ 8 smaller buckets of " in drawn
    assert "more runs" in drawn


def test_what_cannot_be_read_is_said_in_its_place(tmp_path: Path) -> None:
    with disable_fsync():
        table = new_table(tmp_path, "id INT")
        assert "Nothing was committed." in table.inspect().html
        table.append([{"id": 1}])
    page = table.inspect()
    for manifest in Path(table.path).glob("manifest/manifest-[0-9a-f]*"):
        manifest.unlink()
    html = page.html
    Checked(html)
    assert html.count('class="error"') > 2
    assert "restore it from a backup" in html


def test_the_command(run: Run, orders: morrow.Table, tmp_path: Path) -> None:
    told = run("inspect", orders.path, "-o", tmp_path / "x.html", "--filter", "id = 1")
    assert told.out == f"{tmp_path}/x.html: {(tmp_path / 'x.html').stat().st_size:,} bytes\n"
    assert run("inspect", orders.path).lines[0].startswith(f"{orders.path}: snapshot ")


@needs_browser
def test_in_a_browser(orders: morrow.Table, tmp_path: Path) -> None:
    """The page is as wide as the window and in the reader's colour scheme, and it runs and fetches nothing."""
    report, reprs = tmp_path / "page.html", tmp_path / "reprs.html"
    with patch.object(inspection, "FRAME_PIXELS", 100):
        orders.inspect(where="id < 3").save(report)
    scan = orders.scan(filter="id < 3")
    tags, branches, snapshots = orders.tags, orders.branches, orders.snapshots()
    things = (orders, tags, branches, snapshots, orders.schemas(), orders.doctor(), scan, scan.plan)
    shown = "".join(f'<div style="overflow-x: auto">{thing._repr_html_()}</div>' for thing in things)
    reprs.write_text(f"<!DOCTYPE html><meta charset=utf-8><style>:root{{color-scheme:light dark}}</style>{shown}")

    with Browser(tmp_path / "profile") as browser:
        for page, (width, dark) in product((report, reprs), ((1200, False), (420, True), (320, False))):
            look = browser.look(page, width, dark=dark)
            assert look.width <= width and look.out == []
            assert look.requests == [page.as_uri()] and look.console == []
            assert HOSTILE in look.text
            assert max(look.corner) < 0x20 if dark else look.corner == (255, 255, 255)
