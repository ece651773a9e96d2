"""How long snapshots, changelogs, partitions, consumers and tags stay, and which tags are made."""

from __future__ import annotations

from datetime import timedelta

from morrow.engine.options.declaring import JAVA_CLASSES, Stage, beside, honoured, idle, refused, unless
from morrow.engine.options.kinds import BOOL, DURATION, INT, TEXT, word_of, words
from morrow.engine.options.words import ExpireStrategy, Period, PeriodFormatter, TagCreation

SNAPSHOT_NUM_RETAINED_MIN = honoured("snapshot.num-retained.min", INT, 10, "Newest snapshots that always stay")
SNAPSHOT_NUM_RETAINED_MAX = honoured("snapshot.num-retained.max", INT, 2**31 - 1, "Most snapshots that stay")
SNAPSHOT_TIME_RETAINED = honoured(
    "snapshot.time-retained", DURATION, timedelta(hours=1), "Age at which a snapshot may go"
)
SNAPSHOT_EXPIRE_EXECUTION_MODE = idle(
    "expiry is complete when the commit returns",
    "snapshot.expire.execution-mode",
    words("sync", "async"),
    "sync",
    "Whether a commit waits for expiry",
)
SNAPSHOT_EXPIRE_LIMIT = honoured(
    "snapshot.expire.limit", INT, 50, "Most snapshots that a writer removes after a commit"
)
SNAPSHOT_CLEAN_EMPTY_DIRECTORIES = honoured(
    "snapshot.clean-empty-directories",
    BOOL,
    False,
    "Removes folders that expiry has emptied",
    former=("snapshot.expire.clean-empty-directories",),
)
SNAPSHOT_WATERMARK_IDLE_TIMEOUT = honoured(
    "snapshot.watermark-idle-timeout", DURATION, None, "How long a watermark may rest before a tag is made without it"
)
CHANGELOG_NUM_RETAINED_MIN = honoured(
    "changelog.num-retained.min", INT, None, "Newest changelogs that always stay; as for snapshots if not set"
)
CHANGELOG_NUM_RETAINED_MAX = honoured(
    "changelog.num-retained.max", INT, None, "Most changelogs that stay; as for snapshots if not set"
)
CHANGELOG_TIME_RETAINED = honoured(
    "changelog.time-retained", DURATION, None, "Age at which a changelog may go; as for snapshots if not set"
)
CONSUMER_EXPIRATION_TIME = honoured(
    "consumer.expiration-time", DURATION, None, "Age at which a consumer that does not read is forgotten"
)
CONSUMER_CHANGELOG_ONLY = honoured(
    "consumer.changelog-only", BOOL, False, "Keeps changelogs for consumers, and no snapshots"
)
PARTITION_EXPIRATION_STRATEGY = honoured(
    "partition.expiration-strategy",
    word_of(ExpireStrategy, is_open=True),
    ExpireStrategy.VALUES_TIME,
    "Whether a partition's age is that of its values or of its files",
)
PARTITION_EXPIRATION_TIME = honoured("partition.expiration-time", DURATION, None, "Age at which a partition is dropped")
PARTITION_EXPIRATION_CHECK_INTERVAL = honoured(
    "partition.expiration-check-interval", DURATION, timedelta(hours=1), "How often writers look for expired partitions"
)
PARTITION_EXPIRATION_MAX_NUM = honoured(
    "partition.expiration-max-num", INT, 100, "Most partitions that a writer drops at a time"
)
PARTITION_EXPIRATION_BATCH_SIZE = honoured(
    "partition.expiration-batch-size", INT, None, "Partitions that one commit drops; all if not set"
)
PARTITION_TIMESTAMP_FORMATTER = honoured(
    "partition.timestamp-formatter", TEXT, None, "Reads a time from the values of a partition"
)
PARTITION_TIMESTAMP_PATTERN = honoured(
    "partition.timestamp-pattern", TEXT, None, "Makes the text of a time from the values of a partition"
)
PARTITION_TIMESTAMP_FORMAT_STRICT = honoured(
    "partition.timestamp-format.strict", BOOL, False, "Refuses rows of partitions whose time cannot be read"
)
END_INPUT_CHECK_PARTITION_EXPIRE = honoured(
    "end-input.check-partition-expire", BOOL, False, "Looks for expired partitions at the end of a batch"
)
TAG_AUTOMATIC_CREATION = honoured(
    "tag.automatic-creation", word_of(TagCreation), TagCreation.NONE, "What makes tags without being asked"
)
TAG_CREATE_SUCCESS_FILE = honoured("tag.create-success-file", BOOL, False, "Writes a success file beside each tag")
TAG_CREATION_PERIOD = honoured("tag.creation-period", word_of(Period), Period.DAILY, "How often tags are made")
TAG_CREATION_PERIOD_DURATION = honoured(
    "tag.creation-period-duration", DURATION, None, "How often tags are made, as a time span"
)
TAG_CREATION_DELAY = honoured(
    "tag.creation-delay", DURATION, timedelta(), "How long after the end of a period its tag is made"
)
TAG_PERIOD_FORMATTER = honoured(
    "tag.period-formatter",
    word_of(PeriodFormatter),
    PeriodFormatter.WITH_DASHES,
    "How tags are named after their periods",
)
TAG_NUM_RETAINED_MAX = honoured("tag.num-retained-max", INT, None, "Most automatic tags that stay")
TAG_DEFAULT_TIME_RETAINED = honoured("tag.default-time-retained", DURATION, None, "Age at which a tag is removed")
TAG_TIME_EXPIRE_ENABLED = honoured("tag.time-expire-enabled", BOOL, True, "Removes tags whose time has come")
TAG_AUTOMATIC_COMPLETION = honoured(
    "tag.automatic-completion", BOOL, False, "Makes the tags of periods that were missed"
)
TAG_BATCH_CUSTOMIZED_NAME = honoured("tag.batch.customized-name", TEXT, None, "Name of the tag that a batch makes")
TAG_CREATE_TIME = honoured(
    "tag.create-time", TEXT, None, "Time of day at which a tag is made, of the proposal for tags"
)
TAG_CREATE_INTERVAL = honoured("tag.create-interval", DURATION, None, "Days between two tags, of the proposal for tags")
TAG_CALLBACKS = refused(
    unless(JAVA_CLASSES, (), Stage.WRITING),
    "tag.callbacks",
    TEXT,
    None,
    "Java classes that are called when tags are made",
)
TAG_CALLBACK_PARAM = idle(beside("commit.callbacks"), "tag.callback.#.param", TEXT, None, "Argument of such a class")
SINK_WATERMARK_TIME_ZONE = honoured("sink.watermark-time-zone", TEXT, "UTC", "Time zone of the periods of watermarks")
SINK_PROCESS_TIME_ZONE = honoured(
    "sink.process-time-zone", TEXT, None, "Time zone of the periods of the clock; that of the machine if not set"
)
