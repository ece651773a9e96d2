"""Valid column names that other code may misinterpret."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping

from hypothesis import strategies as st

from morrow.engine.names import OWN_PREFIX, POSITION

PATTERNS = ("*", "^x$", "^.*$", "^i.*$", "^($", "^$")
"""Names that Polars interprets as patterns; the last but one does not compile."""

OURS = (
    *("deleted", "newest", "retracts", "deletes", "filled", "inserted", "acc k", "new k", "order 0 0", "touches 0"),
    *("__morrow_position", "__bucket", "__hash", "__row", "__path", "__partition", "__morrow_file", "__morrow_count"),
    *("old", "new", "s0", "k0", "key", "value", "keep", "rows", "row", "element", "target", "source", "here", "there"),
    *(POSITION.lower(), f"{OWN_PREFIX.lower()}file", "_key_k", "_KEY", "_rowkind", "__row_id"),
)
"""Names of columns that Morrow's frames and queries have, or had, beside users' columns."""

ENGINES = (
    *("rowid", "file_row_number", "filename", "_metadata", "index", "literal", "len", "count", "column_0", "row_nr"),
    *("__index_level_0__", "__null_dask_index__", "_right", "x_right", "c0", "scan", "map", "struct", "list"),
)
"""Names that Polars, DuckDB, Spark and pandas give to their own columns."""

KEYWORDS = ("select", "from", "WHERE", "order", "group", "null", "TRUE", "table", "user", "current_date", "lambda")

PUNCTUATED = (
    *('a"b', "a'b", "a`b", "a.b", ".", "a,b", "a b", " lead", "trail ", "a;b", "a--b", "/*a*/", "a\\b", "a/b", "a=b"),
    *(".*", "a*", "[a]", "a[0]", "(a)", "{a}", "{", "$1", "?", "%s", "#", "@", "!", "~", "|", "&", "<a>"),
    *("1", "1a", "-1"),
)

LETTERS = ("é", "e\u0301", "ß", "İ", "日本", "😀", "\u202eabc", "a\u200bb", "\ufeffa", "\ud7ff", "ﬁ")
"""Composed and combining accents, letters whose case changes their length, and others."""

TWINS = ("K", "X", "Deleted", "_Metadata")
"""Names that differ from other names here in case only."""

NAMES = (*PATTERNS, *OURS, *ENGINES, *KEYWORDS, *PUNCTUATED, *LETTERS, *TWINS)


def hostile_names() -> st.SearchStrategy[str]:
    """Draw a hostile name; simple ones come first, since Hypothesis shrinks towards them."""
    return st.sampled_from(("a", "b", "c", *NAMES))


def names_of_columns(
    count: int, taken: tuple[str, ...] = (), usable: Callable[[str], bool] = bool
) -> st.SearchStrategy[list[str]]:
    """Draw `count` distinct `usable` names, none of them among `taken`."""
    names = hostile_names().filter(lambda name: name not in taken and usable(name))
    return st.lists(names, min_size=count, max_size=count, unique=True)


def renamings(plain: Iterable[str], usable: Callable[[str], bool] = bool) -> st.SearchStrategy[dict[str, str]]:
    """Draw a hostile name for each plain one; no two are equal, even in another case."""
    listed = list(plain)
    drawn = st.lists(hostile_names().filter(usable), min_size=len(listed), max_size=len(listed), unique_by=str.lower)
    return drawn.map(lambda names: dict(zip(listed, names, strict=True)))


def drawn_names(plain: Iterable[str], chance: random.Random, usable: Callable[[str], bool] = bool) -> dict[str, str]:
    """Draw names as `renamings` does, but with a seeded generator."""
    names = list({name.lower(): name for name in chance.sample(NAMES, len(NAMES)) if usable(name)}.values())
    return dict(zip(plain, names, strict=False))


def in_avro(name: str) -> bool:
    """Check whether the name is possible in Avro, and so in Paimon's Avro files."""
    return re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) is not None


def quoted(name: str) -> str:
    """Quote the name for SQL."""
    return '"' + name.replace('"', '""') + '"'


# --- names in options ---

LISTS = (
    *("sequence.field", "bucket-key", "partial-update.remove-record-on-sequence-group"),
    "file-index.bloom-filter.columns",
)
"""Options whose values are columns."""
FIELDS, GROUP, DEFAULT = "fields.", ".sequence-group", "fields.default-aggregate-function"
OF_MEMBERS = (".nested-key", ".ts-field")
"""Suffixes of options whose values are members of ROWs."""


def in_orc(name: str) -> bool:
    """Check whether options and Java's ORC reader, which reads columns with a backtick as nulls, support the name."""
    return in_options(name) and "`" not in name


def in_indexes(name: str) -> bool:
    """Check whether options of file indexes can name the column; there a bracket begins the key of a MAP."""
    return in_options(name) and "[" not in name


def in_options(name: str) -> bool:
    """Check whether options can name the column: commas and dots are separators, and some options strip blanks."""
    return not {",", "."} & set(name) and name == name.strip()


def named_in(options: Mapping[str, str]) -> frozenset[str]:
    """Return the columns that the options name."""
    found: set[str] = set()

    def noted(name: str) -> str:
        found.add(name)
        return name

    renamed_options(options, noted)
    return frozenset(found)


def renamed_options(
    options: Mapping[str, str], name: Callable[[str], str], member: Callable[[str], str] = str
) -> dict[str, str]:
    """Rename the columns and members of ROWs in options with `name` and `member`."""

    def each(names: str, name: Callable[[str], str] = name) -> str:
        return ",".join(name(each.strip()) for each in names.split(","))

    renamed = {}
    for option, value in options.items():
        key = option
        if option.startswith(FIELDS) and option != DEFAULT:
            columns, rest = option.removeprefix(FIELDS).split(".", 1)
            key = f"{FIELDS}{each(columns)}.{rest}"
        if option.endswith(OF_MEMBERS):
            renamed[key] = each(value, member)
        else:
            renamed[key] = each(value) if option in LISTS or option.endswith(GROUP) else value
    return renamed
