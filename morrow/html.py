"""HTML for notebooks and reports: elements, SVG shapes, tables, whole pages, and the summary of a table.

All text is escaped in this module and nowhere else. A page loads nothing from the network. The module also builds the
summary of a table (text for `repr`, and HTML). It is imported on display.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from morrow.engine.errors import MorrowError
from morrow.engine.format.paths import MAIN_BRANCH
from morrow.engine.plan.entries import read_live_entries
from morrow.engine.plan.manifests import list_manifests
from morrow.engine.plan.metadata import TableMetadata
from morrow.engine.redaction import clean_text, escape_controls, escape_to_line, hide_secrets, redact_text
from morrow.engine.units import format_age, format_count, format_moment, format_size

FULL_WIDTH = 100.0
"""The width of a drawing in percent."""
MIN_BOX_WIDTH = 0.15
"""The minimum width of a box in percent, so that it is visible."""


class Safe(str):
    """Markup with escaped names and values. Other text is escaped when it is joined with markup."""

    __slots__ = ()

    def __add__(self, other: str) -> Safe:
        return Safe(str.__add__(self, escape_text(other)))


def escape_text(value: object) -> Safe:
    """Convert text to markup: escape it, and remove secrets and control characters. Markup is unchanged."""
    if isinstance(value, Safe):
        return value
    return Safe(html.escape(escape_controls(redact_text(str(value)))))


def build_element(name: str, *content: object, **attributes: object) -> Safe:
    """Return ``<name ...>content</name>``. Attributes that are None are omitted.

    ``class_`` is ``class``; underscores in other names are hyphens.
    """
    pairs = ((key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items() if value is not None)
    opened = "".join(f' {key}="{escape_text(value)}"' for key, value in pairs)
    return Safe(f"<{name}{opened}>{''.join(map(escape_text, content))}</{name}>")


def join_markup(*parts: object) -> Safe:
    """Concatenate markup and text."""
    return Safe("".join(map(escape_text, parts)))


def build_drawing(height: float, *shapes: object, label: str) -> Safe:
    """Build an SVG with the width of its container and `height` pixels. `label` is for screen readers.

    Positions and widths of shapes are percentages and heights are pixels, so that text keeps its size on narrow
    screens.
    """
    return build_element(
        "svg", build_element("title", label), *shapes, role="img", style=f"width:100%;height:{_format_number(height)}px"
    )


def build_box(x: float, y: float, width: float, height: float, kind: str, told: str) -> Safe:
    """Build a rectangle of the class `kind` with a tooltip."""
    size = {
        "x": format_percent(x),
        "y": _format_number(y),
        "width": format_percent(max(width, MIN_BOX_WIDTH)),
        "height": _format_number(height),
    }
    return build_element("rect", build_element("title", told), class_=kind, rx=2, **size)


def build_legend(*kinds: tuple[str, str]) -> Safe:
    """Build a legend of the colours of boxes, from pairs of class and text."""
    swatch = {"width": 12, "height": 12, "style": "width:12px;display:inline-block;vertical-align:-1px"}
    marks = (
        join_markup(
            build_element("svg", build_element("rect", class_=kind, width=12, height=12, rx=2), **swatch), f" {told}  "
        )
        for kind, told in kinds
    )
    return build_element("p", *marks, class_="note")


def build_label(x: float, y: float, content: object, kind: str = "", anchor: str = "start", dx: float = 0) -> Safe:
    """Build a text in a drawing, moved by `dx` pixels."""
    place = {"x": format_percent(x), "y": _format_number(y), "dx": _format_number(dx) if dx else None}
    return build_element("text", content, class_=kind or None, text_anchor=anchor, **place)


def format_percent(number: float) -> str:
    return f"{number:.2f}%".replace(".00%", "%")


def _format_number(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


MAX_ROWS = 200
"""Maximum rows that a table shows; the others are counted."""


def build_table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[str] = ()) -> Safe:
    """Build an HTML table with escaped cells. Columns named in `numbers` are right-aligned."""
    right = [each in set(numbers) for each in headers]
    rows = list(rows)
    head = build_element(
        "tr", *(build_element("th", name, class_="n" if n else None) for name, n in zip(headers, right))
    )
    body = [_build_row(row, right) for row in rows[:MAX_ROWS]]
    found = build_element("table", build_element("thead", head), build_element("tbody", *body))
    more = len(rows) - MAX_ROWS
    return join_markup(found, build_element("p", f"... and {format_count(more, 'more row')}")) if more > 0 else found


def _build_row(row: Sequence[object], right: Sequence[bool]) -> Safe:
    cells = zip(row, right, strict=True)
    return build_element(
        "tr", *(build_element("td", "" if v is None else v, class_="n" if n else None) for v, n in cells)
    )


def build_facts(pairs: Iterable[tuple[str, object]]) -> Safe:
    """Build a table without a header, with a name and a value per row. Values that are None are omitted."""
    rows = (
        build_element("tr", build_element("th", name), build_element("td", value))
        for name, value in pairs
        if value is not None
    )
    return build_element("table", build_element("tbody", *rows))


def add_title(title: object, *content: object) -> Safe:
    """Return the content below a bold title."""
    return join_markup(build_element("p", build_element("b", title)), *content)


STYLE = """
:root { color-scheme: light dark; --back: #fff; --card: #f6f7f9; --ink: #1c2330; --dim: #667085; --line: #dfe3ea;
  --append: #3b82c4; --compact: #9a6fb8; --fall: #d0743c; --dead: #c2185b; --tag: #2e8b57; --warn: #c9a227; }
@media (prefers-color-scheme: dark) { :root { --back: #14181f; --card: #1c222c; --ink: #e3e7ee; --dim: #8f9bb0;
  --line: #313a48; --append: #5ba3e0; --compact: #b592d1; --fall: #e08e5a; --dead: #f06292; --tag: #52b788;
  --warn: #e3c567; } }
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1080px; padding: 16px; background: var(--back); color: var(--ink);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 22px; margin: 8px 0; overflow-wrap: anywhere } h2 { font-size: 16px; margin: 0 0 8px }
h3 { font-size: 13px; margin: 14px 0 4px; overflow-wrap: anywhere } h3 small { font-weight: 400; margin-left: 8px }
small, .note, .dim { color: var(--dim) } svg text { font-size: 12px; fill: var(--ink) } svg { display: block }
svg .dim { fill: var(--dim) } svg text.tag { fill: var(--tag) }
section { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 14px 0; overflow-x: auto }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 0 14px }
table { border-collapse: collapse; margin: 6px 0 } th, td { padding: 3px 10px 3px 0; text-align: left;
  vertical-align: top; overflow-wrap: anywhere; border-bottom: 1px solid var(--line) } .n { text-align: right }
th { font-weight: 600; white-space: nowrap }
code { background: var(--back); border-radius: 4px; padding: 1px 4px; overflow-wrap: anywhere }
p { margin: 4px 0 } .error { color: var(--dead) } .warning { color: var(--warn) } .well { color: var(--tag) }
rect.append { fill: var(--append) } rect.compact { fill: var(--compact) } rect.fall { fill: var(--fall) }
rect.dead { fill: var(--dead) } line.tag { stroke: var(--tag); stroke-dasharray: 2 3 }
line.branch { stroke: var(--compact); stroke-width: 3 }
rect.level0 { fill: var(--fall) } rect.level1, rect.level2 { fill: var(--warn) }
rect.level3, rect.level4 { fill: var(--compact) } rect.level5, rect.level6 { fill: var(--append) }
rect { stroke: var(--card); stroke-width: .5 }
.run, .share { display: grid; gap: 8px; align-items: center; margin: 0 0 5px; font-size: 12px }
.run { grid-template-columns: 76px 64px 1fr }
.share { grid-template-columns: minmax(84px, 32%) 1fr minmax(96px, 30%) }
.name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
"""


def build_section(title: str, *content: object) -> Safe:
    """Return a titled part of the page."""
    return build_element("section", build_element("h2", title), *content)


def build_page(title: str, content: Iterable[object]) -> str:
    """Return a complete HTML document."""
    head = join_markup(
        Safe('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        # Forbid scripts and network access, whatever names the table contains.
        Safe("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"),
        build_element("title", title),
        Safe(f"<style>{STYLE}</style>"),
    )
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{join_markup(*content)}</body></html>\n'


def wrap_in_frame(document: str, height: int) -> str:
    """Wrap a page in a frame for embedding, such as in a notebook cell, with separate styles."""
    return (
        f'<iframe srcdoc="{escape_text(document)}" style="width:100%;height:{height}px;border:0" sandbox=""></iframe>'
    )


MAX_COLUMNS = 40
"""Maximum columns that are listed; the others are counted."""
MAX_MANIFEST_BYTES = 8 << 20
"""Maximum bytes of manifests that are read to show the size of a table in a notebook."""


def render_text(metadata: TableMetadata, path: str) -> str:
    """Return the summary as text: path, keys, newest snapshot, and columns, one per line."""
    schema = metadata.latest_schema()
    keys = [f"primary key ({', '.join(schema.primary_keys)})"] if schema.primary_keys else ["append"]
    if schema.partition_keys:
        keys.append(f"partitioned by ({', '.join(schema.partition_keys)})")
    branch = "" if metadata.branch == MAIN_BRANCH else f", branch {metadata.branch}"
    columns = [clean_text(f"  {escape_to_line(f.name)}: {f.type}") for f in schema.fields[:MAX_COLUMNS]]
    if (left := len(schema.fields) - MAX_COLUMNS) > 0:
        columns.append(f"  ... and {format_count(left, 'more column')}")
    lines = [clean_text(f"Table({clean_text(path)!r}{branch}, {escape_to_line(', '.join(keys))})"), *columns]
    return "\n".join([*lines, f"  {_describe_snapshot(metadata)}"])


def render_html(metadata: TableMetadata, path: str, name: str) -> str:
    """Return the summary as HTML, with the table's size and its options without secrets."""
    schema = metadata.latest_schema()
    partitions = ", ".join(schema.partition_keys)
    known = [
        ("path", path),
        ("branch", None if metadata.branch == MAIN_BRANCH else metadata.branch),
        ("comment", schema.comment),
        ("primary key", ", ".join(schema.primary_keys) or "none: an append table"),
        ("partitioned by", partitions or None),
        ("snapshot", _describe_snapshot(metadata)),
        ("stored", _describe_size(metadata)),
        *((key, value) for key, value in hide_secrets(schema.options).items()),
    ]
    rows = [(field.name, field.type, field.description or "") for field in schema.fields]
    return join_markup(add_title(name, build_facts(known)), build_table(("column", "type", "comment"), rows))


def _describe_snapshot(metadata: TableMetadata) -> str:
    try:
        newest = metadata.latest_snapshot()
    except MorrowError as error:
        return clean_text(f"snapshot: {escape_to_line(str(error))}")
    if newest is None:
        return "no snapshot: nothing was committed"
    count = newest.total_record_count
    rows = "" if count is None else f", {format_count(count, 'stored row')}"
    return f"snapshot {newest.id}, {format_moment(newest.time)} ({format_age(newest.time)}){rows}"


def _describe_size(metadata: TableMetadata) -> str | None:
    """Return a text such as ``3 files, 12 KiB``; None if it is slow to compute or not available."""
    try:
        newest = metadata.latest_snapshot()
        if newest is None or int(list_manifests(metadata, newest)["_FILE_SIZE"].sum()) > MAX_MANIFEST_BYTES:
            return None
        files = read_live_entries(metadata, newest, metadata.schema(newest.schema_id)).frame
    except MorrowError as error:
        return escape_to_line(str(error))
    return f"{format_count(files.height, 'file')}, {format_size(int(files['_FILE_SIZE'].sum()))}"
