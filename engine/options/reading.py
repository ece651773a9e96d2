"""The options for reading a table.

Options that change what a read returns are parsed here, or refused here by name when Morrow does not handle them.
Options that only affect writing, streaming or a particular engine are kept as text in `raw` and change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from morrow.engine.errors import InvalidArgument
from morrow.engine.options.declared.files import DATA_FILE_THIN_MODE, FILE_FORMAT, FILE_INDEX_READ_ENABLED
from morrow.engine.options.declared.merging import (
    CHANGELOG_PRODUCER,
    DELETION_VECTORS_ENABLED,
    FORCE_LOOKUP,
    IGNORE_DELETE,
    MERGE_ENGINE,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
)
from morrow.engine.options.declared.scans import (
    SCAN_FALLBACK_BRANCH,
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
    DATA_EVOLUTION_ENABLED,
    DATA_FILE_EXTERNAL_PATHS,
    DATA_FILE_PATH_DIRECTORY,
    INDEX_FILE_IN_DATA_FILE_DIR,
    PARTITION_DEFAULT_NAME,
    PARTITION_LEGACY_NAME,
    ROW_TRACKING_ENABLED,
)
from morrow.engine.options.declaring import AnyOption, Stage
from morrow.engine.options.given import Options
from morrow.engine.options.misspelt import refuse_slips
from morrow.engine.options.registry import refuse
from morrow.engine.options.views import option, values
from morrow.engine.options.words import ChangelogProducer

TRAVEL: tuple[AnyOption, ...] = (
    *(SCAN_SNAPSHOT_ID, SCAN_TAG_NAME, SCAN_TIMESTAMP, SCAN_TIMESTAMP_MILLIS, SCAN_WATERMARK, SCAN_VERSION),
)
"""Options that select the snapshot to read."""
TRAVEL_KEYS = tuple(each.key for each in TRAVEL)
DESCENDING = "descending"


class TableOptions(msgspec.Struct, frozen=True):
    """The options of a table that reads depend on, parsed; `given` holds all of them as text."""

    given: Options = msgspec.field(default_factory=Options)
    merge_engine: str = option(MERGE_ENGINE)
    bucket: int = option(BUCKET)
    bucket_key: tuple[str, ...] = option(BUCKET_KEY)
    bucket_function: str = option(BUCKET_FUNCTION_TYPE)
    file_format: str = option(FILE_FORMAT)
    thin_mode: bool = option(DATA_FILE_THIN_MODE)
    deletion_vectors: bool = option(DELETION_VECTORS_ENABLED)
    changelog_producer: ChangelogProducer = option(CHANGELOG_PRODUCER)
    force_lookup: bool = option(FORCE_LOOKUP)
    ignore_delete: bool = option(IGNORE_DELETE)
    sequence_fields: tuple[str, ...] = option(SEQUENCE_FIELD)
    sequence_order: str = option(SEQUENCE_FIELD_SORT_ORDER)
    partition_default_name: str = option(PARTITION_DEFAULT_NAME)
    legacy_partition_name: bool = option(PARTITION_LEGACY_NAME)
    data_directory: str | None = option(DATA_FILE_PATH_DIRECTORY)
    external_roots: tuple[str, ...] = option(DATA_FILE_EXTERNAL_PATHS)
    index_in_data_dir: bool = option(INDEX_FILE_IN_DATA_FILE_DIR)
    file_index_enabled: bool = option(FILE_INDEX_READ_ENABLED)
    row_tracking: bool = option(ROW_TRACKING_ENABLED)
    data_evolution: bool = option(DATA_EVOLUTION_ENABLED)
    fallback_branch: str | None = option(SCAN_FALLBACK_BRANCH)
    primary_branch: str | None = option(SCAN_PRIMARY_BRANCH)
    travel: Mapping[str, str] = msgspec.field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.given)

    @property
    def raw(self) -> Mapping[str, str]:
        """All options as text, including those for other software."""
        return self.given.raw

    @property
    def other_branch(self) -> str | None:
        """The branch that is read beside main; a blank name means none, as in Java."""
        return next((name for name in (self.fallback_branch, self.primary_branch) if name and name.strip()), None)

    @property
    def looks_up(self) -> bool:
        """Whether compactions look up a key's rows in higher levels."""
        return self.deletion_vectors or self.force_lookup or self.changelog_producer is ChangelogProducer.LOOKUP

    @property
    def sequence_descending(self) -> bool:
        """Whether the least of the sequence fields is the newest."""
        return self.sequence_order == DESCENDING


def parse_options(raw: Mapping[str, str], *, where: str) -> TableOptions:
    """Parses and checks the options of one schema; `where` (table folder) goes into errors.

    Raises:
        Unsupported: an option at a value that changes what reads return and that Morrow does not handle.
        InvalidArgument: a value that does not parse, or a key that is a slip away from one that decides about rows.
    """
    refuse(raw, where, Stage.READING)
    refuse_slips(raw, where)
    options = Options(dict(raw), where)
    parsed: dict[str, Any] = values(TableOptions, options)
    parsed["data_directory"] = _folder(parsed["data_directory"], options)
    travel = {each.key: text for each in TRAVEL if (text := options.text(each)) is not None}
    return TableOptions(given=options, travel=travel, **parsed)


def _folder(value: str | None, options: Options) -> str | None:
    folder = (value or "").strip("/")
    if ".." in folder.split("/"):
        raise InvalidArgument(
            f"{options.where}: the option {DATA_FILE_PATH_DIRECTORY} = {value!r} leads outside of the table"
        )
    return folder or None
