"""The page of all options, ``docs/options.md``: ``python -m morrow.engine.options.documentation`` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import timedelta
from textwrap import fill
from types import ModuleType

from morrow.engine.options.declarations import AnyOption
from morrow.engine.options.declared.features import TEXT_INDEX_OPTIONS, VECTOR_INDEX_OPTIONS
from morrow.engine.options.table_options import COLUMN_OPTIONS, FREE_PREFIXES, THEMES, list_options

HEAD = """# Options of tables

Every option of a table, by theme: its kind, its default, and what Morrow makes of it. This page is
made by `python -m morrow.engine.options.documentation` from the declarations in
`engine/options/declared`.

- **honoured**: it does what it does in Paimon.
- **no effect**: it is accepted, and changes nothing here; the page says why.
- **refused**: it is an error (`Unsupported`) to set it, but to the values that are named. What
  another writer has stored in a table is an error for reads, writes or streams only where that is
  said.

An *immutable* option keeps its value once the table has snapshots. A former key counts where the
present one is not set. Keys that no table knows are kept; one that is close to a key on this page
is refused when it is set.
"""
COLUMNS_HEAD = """## Options of columns

`fields.<column>.<option>`, for columns of the table; a sequence group may name several between
commas.
"""
FAMILIES = "Other options that begin with {} are kept as they are."
INDEXES_HEAD = "## Options of indexes\n"
VECTOR_INDEXES = (
    "An index of vectors has `<type>.<option>` and, for one column, `fields.<column>.<option>`, which wins. The types "
    "are `ivf-flat`, `ivf-pq`, `ivf-sq`, `ivf-rq` and `diskann`. The options are {}."
)
TEXT_INDEXES = "Full-text indexes have `full-text.<option>`. The options are {}."
MAX_LINE_LENGTH = 100
"""The limit of characters in a line of text, as in all documents."""
TABLE = ("| option | kind | default | here | what it does |", "| -- | -- | -- | -- | -- |")
SIZES = ((1 << 30, "gb"), (1 << 20, "mb"), (1 << 10, "kb"))
SPANS = (
    (timedelta(days=1), "d"),
    (timedelta(hours=1), "h"),
    (timedelta(minutes=1), "min"),
    (timedelta(seconds=1), "s"),
)
MILLI = timedelta(milliseconds=1)


def build_page() -> str:
    """Return the text of ``docs/options.md``."""
    parts = [HEAD, *(_build_section(theme) for theme in THEMES)]
    rows = (_build_row(option.of("*"), suffix) for suffix, option in COLUMN_OPTIONS.items())
    families = ", ".join(f"`{prefix}`" for prefix in FREE_PREFIXES)
    kept = fill(FAMILIES.format(families), MAX_LINE_LENGTH, break_long_words=False, break_on_hyphens=False)
    vectors, texts = (", ".join(f"`{name}`" for name in names) for names in (VECTOR_INDEX_OPTIONS, TEXT_INDEX_OPTIONS))
    indexes = "\n\n".join(
        fill(text.format(names), MAX_LINE_LENGTH, break_long_words=False, break_on_hyphens=False)
        for text, names in ((VECTOR_INDEXES, vectors), (TEXT_INDEXES, texts))
    )
    return "\n".join([*parts, COLUMNS_HEAD, *TABLE, *rows, "", kept, "", INDEXES_HEAD, indexes, ""])


def format_default(option: AnyOption) -> str | None:
    """Return the default of an option as readable text, None if there is none."""
    value = option.default
    if value is None or value == () or value == {}:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, timedelta):
        return _format_span(value)
    if isinstance(value, int) and option.kind.name == "size":
        return next((f"{value // size} {unit}" for size, unit in SIZES if value and value % size == 0), f"{value} b")
    return str(value)


def _format_span(value: timedelta) -> str:
    exact = (f"{value // span} {unit}" for span, unit in SPANS if value and not value % span)
    return next(exact, f"{value // MILLI} ms")


def _build_section(theme: ModuleType) -> str:
    title, _, rest = (theme.__doc__ or "").strip().rstrip(".").partition(": ")
    lines = [f"## {title}", ""]
    if rest:
        lines += [f"{rest[0].upper()}{rest[1:]}.", ""]
    return "\n".join([*lines, *TABLE, *(_build_row(option, option.key) for option in list_options(theme)), ""])


def _build_row(option: AnyOption, name: str) -> str:
    default = format_default(option)
    notes = [option.doc, *(["immutable"] if option.immutable else []), *_list_former_keys(option)]
    shown = "" if default is None else f"`{default!r}`" if default != default.strip() or not default else f"`{default}`"
    return f"| `{name}` | {option.kind.name} | {shown} | {_describe_support(option)} | {'; '.join(notes)} |"


def _list_former_keys(option: AnyOption) -> Iterator[str]:
    if option.former:
        yield f"formerly {', '.join(f'`{key}`' for key in option.former)}"


def _describe_support(option: AnyOption) -> str:
    if option.idle is not None:
        return f"no effect: {option.idle}"
    if option.refusal is None:
        return "honoured"
    harmless = ", ".join(f"`{value}`" for value in sorted(option.refusal.unless))
    stages = " and ".join(sorted(stage.value for stage in option.refusal.stages))
    return "".join(
        (
            "refused",
            f" but {harmless}" if harmless else "",
            f", also for {stages}" if stages else "",
            f": {option.refusal.reason}",
        )
    )


if __name__ == "__main__":
    sys.stdout.write(build_page())
