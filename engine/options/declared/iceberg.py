"""Metadata for Iceberg beside Paimon's: Morrow does not keep any."""

from __future__ import annotations

from morrow.engine.options.declaring import Stage, beside, idle, refused, unless
from morrow.engine.options.kinds import BOOL, INT, TEXT

METADATA_ICEBERG_STORAGE = refused(
    unless("Morrow does not keep Iceberg metadata beside Paimon's", ("disabled",), Stage.WRITING),
    "metadata.iceberg.storage",
    TEXT,
    "disabled",
    "Keeps Iceberg metadata, and where",
)
METADATA_ICEBERG_STORAGE_LOCATION = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.storage-location", TEXT, None, "Folder of Iceberg metadata"
)
METADATA_ICEBERG_FORMAT_VERSION = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.format-version", INT, 2, "Version of Iceberg's format"
)
METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.compaction.min.file-num",
    INT,
    10,
    "Small metadata files that are compacted",
)
METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.compaction.max.file-num",
    INT,
    50,
    "Metadata files above which they are compacted",
)
METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.delete-after-commit.enabled",
    BOOL,
    True,
    "Removes old metadata files",
)
METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.previous-versions-max", INT, 0, "Old metadata files that stay"
)
METADATA_ICEBERG_URI = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.uri", TEXT, None, "Address of the Iceberg catalog"
)
METADATA_ICEBERG_HIVE_CONF_DIR = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.hive-conf-dir", TEXT, None, "Folder of Hive's settings"
)
METADATA_ICEBERG_HADOOP_CONF_DIR = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.hadoop-conf-dir", TEXT, None, "Folder of Hadoop's settings"
)
METADATA_ICEBERG_MANIFEST_COMPRESSION = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.manifest-compression",
    TEXT,
    "snappy",
    "Codec of Iceberg manifests",
)
METADATA_ICEBERG_MANIFEST_LEGACY_VERSION = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.manifest-legacy-version",
    BOOL,
    False,
    "Writes manifests as Iceberg 1.4 did",
)
METADATA_ICEBERG_HIVE_CLIENT_CLASS = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.hive-client-class",
    TEXT,
    "org.apache.hadoop.hive.metastore.HiveMetaStoreClient",
    "Client of Hive's metastore",
)
METADATA_ICEBERG_DATABASE = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.database", TEXT, None, "Database in the Iceberg catalog"
)
METADATA_ICEBERG_TABLE = idle(
    beside("metadata.iceberg.storage"), "metadata.iceberg.table", TEXT, None, "Table in the Iceberg catalog"
)
METADATA_ICEBERG_GLUE_SKIP_ARCHIVE = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.glue.skip-archive",
    BOOL,
    False,
    "Leaves old versions out of AWS Glue",
)
METADATA_ICEBERG_HIVE_SKIP_UPDATE_STATS = idle(
    beside("metadata.iceberg.storage"),
    "metadata.iceberg.hive-skip-update-stats",
    BOOL,
    False,
    "Leaves statistics out of Hive",
)
