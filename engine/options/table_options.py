"""The options of a table: all of them by key, their checks, and those that reads obey.

An option that would change a read or a write is honoured or refused by name, never ignored. Options unknown to Paimon
are kept unchanged, by Paimon and by Morrow; a key that looks misspelled is refused when it is set.

Options that change the result of a read are parsed here, or refused by name if Morrow does not handle them. Options
that only affect writing or a particular engine are kept as text in `raw` and ignored.

Unknown options belong to other software and are ignored. But a damaged byte of a schema file, or a typing error at
the creation of the table, must not turn an option that decides which rows are read into an unknown one. So keys that
look like a misspelling of such an option are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import lru_cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

import msgspec

from morrow.engine.errors import InvalidArgument, Unsupported
from morrow.engine.format.metadata_json import find_meant_name, is_misspelling
from morrow.engine.options.declarations import (
    AGGREGATE_FUNCTION_PLUGINS,
    FIELDS,
    AnyOption,
    ChangelogProducer,
    ColumnOption,
    Declared,
    Options,
    Stage,
    bind_option,
    make_value_error,
    read_values,
)
from morrow.engine.options.declared import connectors, features, files, maintenance, merging, scans, table
from morrow.engine.options.declared.features import GLOBAL_INDEX_ENABLED
from morrow.engine.options.declared.files import DATA_FILE_THIN_MODE, FILE_FORMAT, FILE_INDEX_READ_ENABLED
from morrow.engine.options.declared.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_ENABLED,
    DELETION_VECTORS_MERGE_ON_READ,
    FORCE_LOOKUP,
    IGNORE_DELETE,
    MERGE_ENGINE,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
    SEQUENCE_SNAPSHOT_ORDERING,
)
from morrow.engine.options.declared.scans import (
    SCAN_FALLBACK_BRANCH,
    SCAN_IGNORE_CORRUPT_FILES,
    SCAN_IGNORE_LOST_FILES,
    SCAN_PRIMARY_BRANCH,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
)
from morrow.engine.options.declared.table import (
    BUCKET,
    BUCKET_FUNCTION_TYPE,
    BUCKET_KEY,
    CHAIN_TABLE_CHAIN_PARTITION_KEYS,
    CHAIN_TABLE_ENABLED,
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_EXTERNAL_PATHS,
    DATA_FILE_PATH_DIRECTORY,
    INDEX_FILE_IN_DATA_FILE_DIR,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    ROW_TRACKING_ENABLED,
    SCAN_FALLBACK_DELTA_BRANCH,
    SCAN_FALLBACK_SNAPSHOT_BRANCH,
)
from morrow.engine.options.retention import TAG_KEYS, parse_tag_options

THEMES: tuple[ModuleType, ...] = (table, files, merging, maintenance, scans, features, connectors)
"""The modules that declare options, in the order of the documentation."""


def list_options(theme: ModuleType) -> tuple[AnyOption, ...]:
    """Return the options that a module declares, in its order."""
    groups = (value if isinstance(value, tuple) else (value,) for value in vars(theme).values())
    return tuple(option for group in groups for option in group if isinstance(option, Declared))


OPTIONS: Mapping[str, AnyOption] = {option.key: option for theme in THEMES for option in list_options(theme)}
COLUMN_OPTIONS: Mapping[str, ColumnOption[object]] = {
    option.suffix: option for option in vars(merging).values() if isinstance(option, ColumnOption)
}
IMMUTABLE = frozenset(key for key, option in OPTIONS.items() if option.immutable)

FREE_PREFIXES = (
    *("file-index.", "parquet.", "orc.", "avro.", "metadata.iceberg.", "commit.callback.", "tag.callback."),
    *("blob-descriptor.", "btree-index.", "bitmap-index.", "multivalue-index.", "sorted-index.", "lumina."),
    *("ivf-flat.", "ivf-pq.", "ivf-sq.", "ivf-rq.", "diskann.", "ivf.", "full-text."),
)
"""Families of options that are not individually listed here."""

ANY = "#"
"""A placeholder for any name in the keys of callbacks."""

MIN_SIMILARITY = 0.8
"""The similarity above which one key may be a misspelling of the other."""
SEPARATORS = "[._]"


def _index_by_key() -> dict[str, tuple[AnyOption, ...]]:
    found: dict[str, tuple[AnyOption, ...]] = {}
    for option in OPTIONS.values():
        for key in option.keys:
            found[key] = (*found.get(key, ()), option)
    return found


BY_ANY_KEY: Mapping[str, tuple[AnyOption, ...]] = _index_by_key()
"""Key or former key -> the options it sets; ``lineSep`` sets an option of several formats."""


@lru_cache(maxsize=1 << 12)
def find_options(key: str) -> tuple[AnyOption, ...]:
    """Return the options that a key sets: none for a key that Paimon does not know."""
    found = BY_ANY_KEY.get(key, ())
    if not found and (column := split_column_option(key)) is not None:
        names, suffix = column
        return (COLUMN_OPTIONS[suffix].of(names),) if suffix in COLUMN_OPTIONS else ()
    return found


def find_present_key(key: str) -> str:
    """Return the present key of a former one; other keys are returned unchanged."""
    found = BY_ANY_KEY.get(key, ())
    return found[0].key if len(found) == 1 else key


def resolve_former_keys(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options with present keys added to former ones, unless a key of higher precedence is set."""
    options = dict(raw)
    for key in raw:
        for option in BY_ANY_KEY.get(key, ()):
            if option.key not in options:
                text = Options(raw).text(option)
                assert text is not None  # one of its keys is set
                options[option.key] = text
    return options


def check_new_options(raw: Mapping[str, str], keys: Iterable[str], where: str) -> None:
    """Check options being set now, in a new table or by a change.

    Raises:
        InvalidArgument: a value of the wrong kind, a key that looks misspelled, or settings of tags that
            contradict each other.
        Unsupported: a value that Morrow does not honour.
    """
    keys = tuple(keys)
    for key in keys:
        found = find_options(key)
        for option in found:
            if not _is_common_word(key, option) and not option.kind.accepts(raw[key]):
                raise make_value_error(raw, key, where, f"it must be {option.kind.expected}")
        if not found:
            _refuse_slip(key, raw, where)
    refuse_options({key: raw[key] for key in keys}, where)
    if any(key.startswith(TAG_KEYS) for key in keys):
        parse_tag_options(raw, where=where)


def refuse_options(raw: Mapping[str, str], where: str, stage: Stage | None = None) -> None:
    """Raise `Unsupported` for options whose value Morrow does not honour: at a stage, or (None) when they are set."""
    for key, value in raw.items():
        for option in find_options(key):
            if option.refusal is not None and _is_refused(option, value, stage) and not _is_common_word(key, option):
                what = f"the option {key!r} = {value!r}"
                raise Unsupported(what, where=where, hint=option.refusal.reason)


def _is_common_word(key: str, option: AnyOption) -> bool:
    """Return whether a former key is a common word such as ``mode``, which tables of other formats may use."""
    return key != option.key and key.isalpha()


def _is_refused(option: AnyOption, value: str, stage: Stage | None) -> bool:
    refusal = option.refusal
    if refusal is None or (stage is not None and stage not in refusal.stages):
        return False
    word = value.strip().lower()
    says_nothing = not word and stage is not Stage.READING and option.kind.accepts(word)
    return word not in refusal.unless and not says_nothing


def split_column_option(key: str) -> tuple[str, str] | None:
    """Return the columns and the suffix of a column option, None for another key.

    Column names may contain dots. The suffix is the longest known suffix of the key. Without a known suffix (an option
    of another package, or a misspelling), it is the text after the first dot.
    """
    if not key.startswith(FIELDS):
        return None
    rest = key.removeprefix(FIELDS)
    known = max((suffix for suffix in COLUMN_OPTIONS if rest.endswith(f".{suffix}")), key=len, default=None)
    names, dot, suffix = rest.partition(".") if known is None else (rest[: -len(known) - 1], ".", known)
    return (names, suffix) if dot and names else None


def _refuse_slip(key: str, raw: Mapping[str, str], where: str) -> None:
    column = split_column_option(key)
    if column is not None and column[1] in features.VECTOR_INDEX_OPTIONS:
        return
    meant = _find_nearest(key)
    if meant is not None:
        raise InvalidArgument(f"{where}: there is no option {key!r}; did you mean {meant!r}?")
    if column is not None and not _is_of_other_package(key, raw):
        known = ", ".join(COLUMN_OPTIONS)
        raise InvalidArgument(f"{where}: there is no option {key!r}; the options of a column are {known}")


def _is_of_other_package(key: str, raw: Mapping[str, str]) -> bool:
    """Return whether the aggregate function of a column is from another package, which may have options of its own."""
    parts = key.removeprefix(FIELDS).split(".")
    heads = (".".join(parts[:length]) for length in range(1, len(parts)))
    functions = (Options(raw).get(merging.AGGREGATE_FUNCTION.of(head)) for head in heads)
    return any(name and entry_points(group=AGGREGATE_FUNCTION_PLUGINS, name=name) for name in functions)


def _find_nearest(key: str) -> str | None:
    if (column := split_column_option(key)) is not None:
        near = next(iter(_find_close(column[1], COLUMN_OPTIONS)), None)
        return None if near is None else f"{FIELDS}{column[0]}.{near}"
    if key.startswith(FREE_PREFIXES):
        family = key.partition(".")[0]
        return find_meant_name(key, [known for known in OPTIONS if known.startswith(f"{family}.") and ANY not in known])
    return next(_find_close(key, OPTIONS), None)


def _find_close(name: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the known names that are similar, ignoring dots, dashes and case."""
    plain = {re.sub(SEPARATORS, "-", other.lower()): other for other in known}
    import difflib

    for near in difflib.get_close_matches(re.sub(SEPARATORS, "-", name.lower()), plain, n=1, cutoff=MIN_SIMILARITY):
        yield plain[near]


SAMPLE_RATIO, METRIC = "train.sample-ratio", "metric"
DEFAULT_METRIC = "inner_product"
"""The metric of an index of vectors whose options name none, as in Paimon."""


def choose_vector_options(index_type: str, column: str, options: Options) -> tuple[dict[str, str], float]:
    """Return the options of paimon-vindex for an index, and the share of its vectors to train with.

    Raises `InvalidArgument`: an unknown option of the index, or a share that is not above 0 and up to 1.
    """
    chosen = {METRIC: DEFAULT_METRIC}
    for prefix in (f"{index_type}.", f"{FIELDS}{column}."):  # options of the column win
        for key in (key for key in options.raw if key.startswith(prefix)):
            name = features.VECTOR_INDEX_OPTIONS.get(key.removeprefix(prefix))
            if name is not None:
                chosen[name] = options.raw[key]
            elif not key.startswith(FIELDS):
                known = ", ".join(features.VECTOR_INDEX_OPTIONS)
                raise InvalidArgument(f"{options.where}: there is no option {key!r}; {index_type} has {known}")
    chosen[METRIC] = chosen[METRIC].strip().lower().replace("-", "_")
    text = chosen.pop(SAMPLE_RATIO, "1")
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not 0 < ratio <= 1:
        raise InvalidArgument(f"{options.where}: {SAMPLE_RATIO!r} is a number above 0 and up to 1, not {text!r}")
    return chosen, ratio


def choose_text_options(options: Options) -> dict[str, str]:
    """Return the options of paimon-ftindex. Raises `InvalidArgument` for an unknown option of full-text indexes."""
    prefix = "full-text."
    chosen = {key.removeprefix(prefix): value for key, value in options.raw.items() if key.startswith(prefix)}
    unknown = next((key for key in chosen if key not in features.TEXT_INDEX_OPTIONS), None)
    if unknown is not None:
        known = ", ".join(features.TEXT_INDEX_OPTIONS)
        raise InvalidArgument(f"{options.where}: there is no option {prefix + unknown!r}; full-text has {known}")
    return chosen


TRAVEL: tuple[AnyOption, ...] = (
    *(SCAN_SNAPSHOT_ID, SCAN_TAG_NAME, SCAN_TIMESTAMP, SCAN_TIMESTAMP_MILLIS, SCAN_WATERMARK, SCAN_VERSION),
)
"""Options that select the snapshot to read."""
TRAVEL_KEYS = tuple(each.key for each in TRAVEL)
DESCENDING = "descending"


class TableOptions(msgspec.Struct, frozen=True):
    """The options of a table that reads depend on, parsed; `given` holds all of them as text."""

    given: Options = msgspec.field(default_factory=Options)
    merge_engine: str = bind_option(MERGE_ENGINE)
    bucket: int = bind_option(BUCKET)
    bucket_key: tuple[str, ...] = bind_option(BUCKET_KEY)
    bucket_function: str = bind_option(BUCKET_FUNCTION_TYPE)
    file_format: str = bind_option(FILE_FORMAT)
    thin_mode: bool = bind_option(DATA_FILE_THIN_MODE)
    deletion_vectors: bool = bind_option(DELETION_VECTORS_ENABLED)
    merges_on_read: bool = bind_option(DELETION_VECTORS_MERGE_ON_READ)
    merges_postponed: bool = bind_option(table.POSTPONE_MERGE_ON_READ)
    changelog_producer: ChangelogProducer = bind_option(CHANGELOG_PRODUCER)
    force_lookup: bool = bind_option(FORCE_LOOKUP)
    ignore_delete: bool = bind_option(IGNORE_DELETE)
    sequence_fields: tuple[str, ...] = bind_option(SEQUENCE_FIELD)
    sequence_order: str = bind_option(SEQUENCE_FIELD_SORT_ORDER)
    orders_by_snapshot: bool = bind_option(SEQUENCE_SNAPSHOT_ORDERING)
    partition_default_name: str = bind_option(PARTITION_DEFAULT_NAME)
    legacy_partition_name: bool = bind_option(PARTITION_LEGACY_NAME)
    data_directory: str | None = bind_option(DATA_FILE_PATH_DIRECTORY)
    external_roots: tuple[str, ...] = bind_option(DATA_FILE_EXTERNAL_PATHS)
    index_in_data_dir: bool = bind_option(INDEX_FILE_IN_DATA_FILE_DIR)
    file_index_enabled: bool = bind_option(FILE_INDEX_READ_ENABLED)
    global_index_enabled: bool = bind_option(GLOBAL_INDEX_ENABLED)
    row_tracking: bool = bind_option(ROW_TRACKING_ENABLED)
    data_evolution: bool = bind_option(DATA_EVOLUTION_ENABLED)
    fallback_branch: str | None = bind_option(SCAN_FALLBACK_BRANCH)
    primary_branch: str | None = bind_option(SCAN_PRIMARY_BRANCH)
    is_chain_table: bool = bind_option(CHAIN_TABLE_ENABLED)
    snapshot_branch: str | None = bind_option(SCAN_FALLBACK_SNAPSHOT_BRANCH)
    delta_branch: str | None = bind_option(SCAN_FALLBACK_DELTA_BRANCH)
    chain_keys: tuple[str, ...] = bind_option(CHAIN_TABLE_CHAIN_PARTITION_KEYS)
    ignores_lost_files: bool = bind_option(SCAN_IGNORE_LOST_FILES)
    ignores_corrupt_files: bool = bind_option(SCAN_IGNORE_CORRUPT_FILES)
    travel: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.given)

    @property
    def raw(self) -> Mapping[str, str]:
        """All options as text, including those for other software."""
        return self.given.raw

    @property
    def other_branch(self) -> str | None:
        """A branch that is read in addition to main; a blank name means none, as in Java."""
        if self.chain is not None:
            return self.chain[0]
        return next((name for name in (self.fallback_branch, self.primary_branch) if name and name.strip()), None)

    @property
    def chain(self) -> tuple[str, str] | None:
        """The snapshot branch and the delta branch of a chain table; None until both are set."""
        if not self.is_chain_table or self.snapshot_branch is None or self.delta_branch is None:
            return None
        return self.snapshot_branch, self.delta_branch

    @property
    def skips_files(self) -> bool:
        """Whether reads leave out files that they cannot read."""
        return self.ignores_lost_files or self.ignores_corrupt_files

    @property
    def waits_for_vectors(self) -> bool:
        """Whether batch reads leave out level 0, until a compaction marks the rows that it replaces."""
        return self.deletion_vectors and not self.merges_on_read

    @property
    def looks_up(self) -> bool:
        """Whether compactions look up a key's rows in higher levels."""
        return self.deletion_vectors or self.force_lookup or self.changelog_producer is ChangelogProducer.LOOKUP

    @property
    def sequence_descending(self) -> bool:
        """Whether the least of the sequence fields is the newest."""
        return self.sequence_order == DESCENDING


def parse_options(raw: Mapping[str, str], *, where: str) -> TableOptions:
    """Parse and check the options of one schema; `where` (table folder) is used in errors.

    Raises:
        Unsupported: an option value that changes the result of reads and that Morrow does not handle.
        InvalidArgument: a value that does not parse, or a key that looks like a misspelled option that affects rows.
    """
    refuse_options(raw, where, Stage.READING)
    refuse_slips(raw, where)
    options = Options(dict(raw), where)
    parsed: dict[str, Any] = read_values(TableOptions, options)
    parsed["data_directory"] = _parse_folder(parsed["data_directory"], options)
    travel = {each.key: text for each in TRAVEL if (text := options.text(each)) is not None}
    return TableOptions(given=options, travel=travel, **parsed)


def _parse_folder(value: str | None, options: Options) -> str | None:
    folder = (value or "").strip("/")
    if ".." in folder.split("/"):
        raise InvalidArgument(
            f"{options.where}: the option {DATA_FILE_PATH_DIRECTORY} = {value!r} leads outside of the table"
        )
    return folder or None


FIELDS_WORD = "fields"
READ_BY = tuple(key for option in OPTIONS.values() if option.rows for key in option.keys)
"""Options that decide which rows a batch read returns: similar keys are refused as misspellings."""
MIN_HEAD_LENGTH = 4
"""The minimum number of leading characters that identify an option."""
FIELD_OPTIONS = tuple(suffix for suffix, option in COLUMN_OPTIONS.items() if option.rows)


def refuse_slips(raw: Mapping[str, str], where: str) -> None:
    """Check the keys of a table's options.

    Raises `InvalidArgument`: a key looks like a misspelling of an option that decides which rows a read returns.
    """
    for key in raw:
        if key not in BY_ANY_KEY and (meant := _find_meant(key)) is not None:
            raise InvalidArgument(
                f"{where}: the option {key!r} looks like a misspelling or damage of {meant!r}, which decides which "
                "rows are read; correct or remove it in the newest schema file, or restore that from a backup"
            )


@lru_cache(maxsize=1 << 12)
def _find_meant(key: str) -> str | None:
    parts = key.split(".")
    first, between, last = parts[0], parts[1:-1], parts[-1]
    if between and last in COLUMN_OPTIONS:
        return (
            f"{FIELDS_WORD}.{'.'.join(between)}.{last}"
            if last in FIELD_OPTIONS and is_misspelling(first, FIELDS_WORD)
            else None
        )
    if (
        first == FIELDS_WORD
        and between
        and (meant := find_meant_name(last, FIELD_OPTIONS) or _find_uncut(last)) is not None
    ):
        return f"{FIELDS_WORD}.{'.'.join(between)}.{meant}"
    if not between and last in FIELD_OPTIONS and first.startswith(FIELDS_WORD):
        return f"{FIELDS_WORD}.{first[len(FIELDS_WORD) + 1 :]}.{last}"  # the dot before the column is another character
    return find_meant_name(key, READ_BY)


def _find_uncut(name: str) -> str | None:
    """Return the column option that becomes `name` if more than half of it is cut out of its middle."""
    for meant in FIELD_OPTIONS:
        head = next((i for i, pair in enumerate(zip(name, meant)) if pair[0] != pair[1]), len(name))
        if MIN_HEAD_LENGTH <= head < len(name) < len(meant) and meant.endswith(name[head:]):
            return meant
    return None


FULL, LATEST = "full", "latest"
BEGINNINGS = {
    "default": FULL,
    "full": FULL,
    "latest-full": FULL,
    "latest": LATEST,
    "from-snapshot": LATEST,
    "from-snapshot-full": FULL,
    "from-timestamp": LATEST,
}
"""``scan.mode`` -> whether a stream starts with all rows."""
OF_BATCHES = (scans.SCAN_TAG_NAME, scans.SCAN_WATERMARK, scans.SCAN_VERSION)
"""Options for the time travel of batch reads, with which no stream can begin."""


class StreamOptions(msgspec.Struct, frozen=True):
    """`start` is ``full`` or ``latest``; `snapshot` and `timestamp` (milliseconds or text) are its origin, if set.

    `bound` is the greatest watermark that is read, `delay` the least age of a snapshot, `interval` the time between
    checks for a new one.
    """

    start: str = FULL
    snapshot: int | None = None
    timestamp: int | str | None = None
    consumer_id: str | None = bind_option(scans.CONSUMER_ID)
    begins_anew: bool = bind_option(scans.CONSUMER_IGNORE_PROGRESS)
    bound: int | None = bind_option(scans.SCAN_BOUNDED_WATERMARK)
    delay: timedelta | None = bind_option(scans.STREAMING_READ_SNAPSHOT_DELAY)
    interval: timedelta | None = bind_option(scans.CONTINUOUS_DISCOVERY_INTERVAL)


def parse_stream_options(options: Options, *, begins: bool) -> StreamOptions:
    """Parse the options.

    `begins`: whether the options determine the start of the stream; False if the caller does.

    Raises:
        InvalidArgument: a value that does not parse, or a mode without the option that it needs.
        Unsupported: a start mode that streams do not have.
    """
    refuse_options(options.raw, options.where, Stage.STREAMING)
    parsed = read_values(StreamOptions, options)
    if not begins:
        return StreamOptions(**parsed)
    start, millis = _parse_start(options), options.get(scans.SCAN_TIMESTAMP_MILLIS)
    timestamp = options.get(scans.SCAN_TIMESTAMP) if millis is None else millis
    return StreamOptions(start=start, snapshot=options.get(scans.SCAN_SNAPSHOT_ID), timestamp=timestamp, **parsed)


def _parse_start(options: Options) -> str:
    for each in OF_BATCHES:
        if options.has(each):
            raise Unsupported(f"a stream of a table with the option {each}", where=options.where, hint="say its start")
    mode = options.get(scans.SCAN_MODE)
    if mode not in BEGINNINGS:
        raise Unsupported(f"a stream with {scans.SCAN_MODE} = {mode}", where=options.where, hint="say its start")
    by_time: tuple[Declared[int | None] | Declared[str | None], ...]
    by_time = (scans.SCAN_TIMESTAMP_MILLIS, scans.SCAN_TIMESTAMP)
    by_id = (scans.SCAN_SNAPSHOT_ID,)
    needed = {"from-snapshot": by_id, "from-snapshot-full": by_id, "from-timestamp": by_time}.get(mode, ())
    if needed and not any(map(options.has, needed)):
        raise InvalidArgument(f"{options.where}: {scans.SCAN_MODE} = {mode} needs the option {needed[0]}")
    if mode == scans.SCAN_MODE.default and any(map(options.has, (*by_id, *by_time))):
        return LATEST
    return BEGINNINGS[mode]
