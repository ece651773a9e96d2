"""The options of Paimon 1.4.2 in words, and those that Morrow refuses or that only look like options of Paimon.

`morrow.engine.options.registry` makes sense of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Treatment(StrEnum):
    """What Morrow makes of an option."""

    HONOURED = "honoured"
    READS = "only reads and streams of rows depend on it"
    MAINTENANCE = "it counts only beside an option that is refused"
    TUNING = "it tunes memory, threads and caches of Java"
    ENGINES = "it is for Flink, Spark, Hive or a metastore"
    REFUSED = "refused unless it has one of its harmless values"


# A word is key:kind, kinds are those of `KINDS` or words between bars, and "!" marks what is immutable.
TABLE: Mapping[Treatment, str] = {
    Treatment.HONOURED: """
        aggregation.remove-record-on-delete:bool! bucket:int bucket-append-ordered:bool
        bucket-function.type:default|mod|hive! bucket-key:text! changelog-file.compression:text
        changelog-file.format:text changelog-file.prefix:text changelog-file.stats-mode:text
        changelog-producer:none|input|full-compaction|lookup changelog-producer.row-deduplicate:bool
        changelog-producer.row-deduplicate-ignore-fields:text commit.force-compact:bool
        commit.force-create-snapshot:bool commit.max-retries:int commit.max-retry-wait:duration
        commit.min-retry-wait:duration commit.timeout:duration commit.user-prefix:text
        compaction.delete-ratio-threshold:real compaction.file-num-limit:int compaction.force-rewrite-all-files:bool
        compaction.force-up-level-0:bool compaction.incremental-size-threshold:memory
        compaction.max-size-amplification-percent:int compaction.min.file-num:int
        compaction.optimization-interval:duration compaction.size-ratio:int compaction.total-size-threshold:memory
        data-file.path-directory:text! data-file.prefix:text data-file.thin-mode:bool
        deletion-vector.index-file.target-size:memory deletion-vectors.bitmap64:bool deletion-vectors.enabled:bool
        dynamic-bucket.initial-buckets:int dynamic-bucket.max-buckets:int dynamic-bucket.target-row-num:long
        dynamic-partition-overwrite:bool fields.default-aggregate-function:text file-index.in-manifest-threshold:memory
        file-index.read.enabled:bool file.block-size:memory file.compression:text file.compression.per.level:pairs
        file.compression.zstd-level:int file.format:text file.format.per.level:pairs
        full-compaction.delta-commits:int
        file.suffix.include.compression:bool force-lookup:bool! ignore-delete:bool
        index-file-in-data-file-dir:bool! lookup-compact:radical|gentle lookup-compact.max-interval:int
        lookup-wait:bool manifest.compression:text manifest.delete-file-drop-stats:bool manifest.format:text
        manifest.full-compaction-threshold-size:memory manifest.merge-min-count:int manifest.target-file-size:memory
        merge-engine:deduplicate|partial-update|aggregation|first-row! metadata.stats-dense-store:bool
        metadata.stats-keep-first-n-columns:int metadata.stats-mode:text metadata.stats-mode.per.level:pairs
        num-levels:int num-sorted-run.compaction-trigger:int num-sorted-run.stop-trigger:int overwrite-upgrade:bool
        partial-update.remove-record-on-delete:bool! partial-update.remove-record-on-sequence-group:text!
        partition:text! partition.default-name:text partition.legacy-name:bool postpone.default-bucket-num:int
        primary-key:text! rowkind.field:text! sequence.field:text sequence.field.sort-order:ascending|descending
        snapshot.ignore-empty-commit:bool target-file-size:memory write-buffer-size:memory
        write-buffer-spillable:bool write-only:bool
        add-column-before-partition:bool alter-column-null-to-not-null.disabled:bool
        deletion-vectors.modifiable:bool disable-explicit-type-casting:bool clustering.incremental:bool
        compaction.offpeak-ratio:int compaction.offpeak.end.hour:int compaction.offpeak.start.hour:int
        ignore-update-before:bool delete.force-produce-changelog:bool
        consumer.expiration-time:duration end-input.check-partition-expire:bool
        partition.expiration-batch-size:int partition.expiration-check-interval:duration
        partition.expiration-max-num:int partition.expiration-strategy:text partition.expiration-time:duration
        partition.timestamp-format.strict:bool partition.timestamp-formatter:text partition.timestamp-pattern:text
        tag.automatic-completion:bool tag.automatic-creation:none|process-time|watermark|batch
        tag.batch.customized-name:text tag.create-success-file:bool tag.creation-delay:duration
        tag.creation-period:daily|hourly|two-hours tag.creation-period-duration:duration
        tag.default-time-retained:duration tag.num-retained-max:int
        tag.period-formatter:with_dashes|without_dashes|without_dashes_and_spaces tag.time-expire-enabled:bool
        sink.process-time-zone:text sink.watermark-time-zone:text snapshot.watermark-idle-timeout:duration
        changelog.num-retained.max:int changelog.num-retained.min:int changelog.time-retained:duration
        consumer.changelog-only:bool snapshot.clean-empty-directories:bool snapshot.expire.execution-mode:sync|async
        snapshot.expire.limit:int snapshot.num-retained.max:int snapshot.num-retained.min:int
        snapshot.time-retained:duration""",
    Treatment.READS: """
        batch-scan-mode:none|compact consumer-id:text
        consumer.ignore-progress:bool consumer.mode:exactly-once|at-least-once continuous.discovery-interval:duration
        file-reader-async-threshold:memory incremental-between:text
        incremental-between-scan-mode:auto|delta|changelog|diff incremental-between-tag-to-snapshot:bool
        incremental-between-timestamp:text incremental-to-auto-tag:text key-value.sequence_number.enabled:bool
        read.batch-size:int scan.bounded.watermark:long scan.creation-time-millis:long scan.fallback-branch:text
        scan.fallback-delta-branch:text scan.fallback-snapshot-branch:text scan.file-creation-time-millis:long
        scan.ignore-corrupt-files:bool scan.ignore-lost-files:bool scan.manifest.parallelism:int
        scan.max-splits-per-task:int
        scan.mode:default|latest-full|full|latest|compacted-full|from-timestamp|from-creation-timestamp|\
from-file-creation-time|from-snapshot|from-snapshot-full|incremental
        scan.plan-sort-partition:bool scan.primary-branch:text scan.snapshot-id:long scan.tag-name:text
        scan.timestamp:text scan.timestamp-millis:long scan.version:text scan.watermark:long
        source.split.open-file-cost:memory source.split.target-size:memory
        stream-scan-mode:none|compact-bucket-table|file-monitor streaming-read-append-overwrite:bool
        streaming-read-overwrite:bool streaming.read.snapshot.delay:duration table-read.sequence-number.enabled:bool""",
    Treatment.MAINTENANCE: """
        record-level.time-field:text""",
    Treatment.TUNING: """
        async-file-write:bool cache-page-size:memory dynamic-bucket.assigner-parallelism:int
        cross-partition-upsert.bootstrap-parallelism:int file-operation.thread-num:int
        local-sort.max-num-file-handles:int lookup.cache-file-retention:duration lookup.cache-max-disk-size:memory
        lookup.cache-max-memory-size:memory lookup.cache-spill-compression:text lookup.cache.bloom.filter.enabled:bool
        lookup.cache.bloom.filter.fpp:real lookup.cache.high-priority-pool-ratio:real lookup.hash-load-factor:real
        lookup.merge-buffer-size:memory lookup.merge-records-threshold:int lookup.remote-file.enabled:bool
        lookup.remote-file.level-threshold:int page-size:memory
        parquet.enable.dictionary:text sort-compaction.local-sample.magnification:int
        sort-compaction.range-strategy:size|quantity sort-engine:min-heap|loser-tree sort-spill-buffer-size:memory
        sort-spill-threshold:int spill-compression:text spill-compression.zstd-level:int write-buffer-for-append:bool
        write-buffer-spill.max-disk-size:memory write-max-writers-to-spill:int write.batch-memory:memory
        write.batch-size:int zorder.var-length-contribution:int""",
    Treatment.ENGINES: """
        blob-as-descriptor:bool blob-field:text blob.split-by-file-size:bool blob.target-file-size:memory
        chain-table.chain-partition-keys:text clustering.columns:text
        clustering.history-partition.idle-to-full-sort:duration clustering.history-partition.limit:int
        clustering.incremental.mode:global-sort|local-sort clustering.incremental.optimize-write:bool
        clustering.strategy:text commit.callback.#.param:text data-file.external-paths.specific-fs:text
        data-file.external-paths.weights:text data-file.external-paths:text
        format-table.commit-hive-sync-url:text
        format-table.file.compression:text format-table.implementation:paimon|engine
        format-table.partition-path-only-value:bool global-index.build.max-parallelism:int
        global-index.build.max-shard:int global-index.column-update-action:throw_error|drop_partition_index
        global-index.enabled:bool global-index.external-path:text global-index.row-count-per-shard:long
        global-index.thread-num:int local-merge-buffer-size:memory materialized-table.definition-query:text
        materialized-table.interval-freshness:text
        materialized-table.interval-freshness.time-unit:second|minute|hour|day
        materialized-table.logical-refresh-mode:continuous|full|automatic
        materialized-table.refresh-handler-bytes:text materialized-table.refresh-handler-description:text
        materialized-table.refresh-mode:continuous|full|automatic
        materialized-table.refresh-status:initializing|activated|suspended metastore.partitioned-table:bool
        metastore.tag-to-partition:text metastore.tag-to-partition.preview:none|process-time|watermark|batch
        partition.end-input-to-done:bool partition.idle-time-to-report-statistic:duration
        partition.mark-done-action:text partition.mark-done-action.custom.class:text
        partition.mark-done-action.http.params:text partition.mark-done-action.http.url:text
        partition.sink-strategy:none|hash postpone.batch-write-fixed-bucket:bool
        postpone.batch-write-fixed-bucket.max-parallelism:int tag.callback.#.param:text
        variant.shredding.maxInferBufferRow:int variant.shredding.maxSchemaDepth:int
        variant.shredding.maxSchemaWidth:int variant.shredding.minFieldCardinalityRatio:real
        vector.target-file-size:memory visibility-callback.check-interval:duration
        visibility-callback.timeout:duration""",
    Treatment.REFUSED: """
        auto-create:bool blob-descriptor-field:text! blob-external-storage-field:text!
        blob-external-storage-path:text! branch:text chain-table.enabled:bool
        commit.callbacks:text commit.discard-duplicate-files:bool commit.strict-mode.last-safe-snapshot:long
        cross-partition-upsert.index-ttl:duration data-evolution.enabled:bool!
        data-file.external-paths.strategy:none|specific-fs|round-robin|entropy-inject|weight-robin
        path:text pk-clustering-override:bool!
        query-auth.enabled:bool record-level.expire-time:duration
        row-tracking.enabled:bool! tag.callbacks:text
        type:table|format-table|materialized-table|object-table|lance-table|iceberg-table upsert-key:text
        variant.inferShreddingSchema:bool variant.shreddingSchema:text vector-field:text vector.file.format:text
        visibility-callback.enabled:bool""",
}

FORMER_KEYS: Mapping[str, str] = {
    "blob.stored-descriptor-fields": "blob-descriptor-field",
    "sink.clustering.by-columns": "clustering.columns",
    "sink.clustering.strategy": "clustering.strategy",
    "delete-file.thread-num": "file-operation.thread-num",
    "first-row.ignore-delete": "ignore-delete",
    "deduplicate.ignore-delete": "ignore-delete",
    "partial-update.ignore-delete": "ignore-delete",
    "changelog-producer.lookup-wait": "lookup-wait",
    "log.scan": "scan.mode",
    "log.scan.timestamp-millis": "scan.timestamp-millis",
    "snapshot.expire.clean-empty-directories": "snapshot.clean-empty-directories",
    "parquet.variant.shreddingSchema": "variant.shreddingSchema",
    "write.compaction-skip": "write-only",
    "orc.write.batch-size": "write.batch-size",
}
"""Former names, in the order in which Paimon looks for them; they count where the option itself is not set."""

NOT_IN_A_WRITE = "Morrow does not write such tables"
REFUSED_BECAUSE: Mapping[str, tuple[frozenset[str], str]] = {
    key: (frozenset(harmless.split()), reason)
    for key, harmless, reason in (
        ("auto-create", "false", "make the table with create_table"),
        ("blob-descriptor-field", "", NOT_IN_A_WRITE),
        ("blob-external-storage-field", "", NOT_IN_A_WRITE),
        ("blob-external-storage-path", "", NOT_IN_A_WRITE),
        ("branch", "main", "open the branch instead, with Table.on_branch"),
        ("chain-table.enabled", "false", NOT_IN_A_WRITE),
        ("commit.callbacks", "", "Morrow cannot call Java classes"),
        ("commit.discard-duplicate-files", "false", "Morrow refuses files that are there already"),
        ("commit.strict-mode.last-safe-snapshot", "", "Morrow does not check commits of others this way"),
        ("cross-partition-upsert.index-ttl", "", "a key that the index forgot would be there twice"),
        ("data-evolution.enabled", "false", NOT_IN_A_WRITE),
        ("data-file.external-paths.strategy", "none", "Morrow writes into the table's own folder"),
        ("path", "", "a table of a catalog lies in the folder of its name"),
        ("pk-clustering-override", "false", NOT_IN_A_WRITE),
        ("query-auth.enabled", "false", "it needs a REST catalog"),
        ("record-level.expire-time", "", "Morrow's compaction keeps rows of any age; delete them with a filter"),
        ("row-tracking.enabled", "false", NOT_IN_A_WRITE),
        ("tag.callbacks", "", "Morrow cannot call Java classes"),
        ("type", "table materialized-table", "Morrow writes Paimon's own tables only"),
        ("upsert-key", "", "give the table a primary key, or call merge"),
        ("variant.inferShreddingSchema", "false", "Morrow writes variants unshredded"),
        ("variant.shreddingSchema", "", "Morrow writes variants unshredded"),
        ("vector-field", "", NOT_IN_A_WRITE),
        ("vector.file.format", "", NOT_IN_A_WRITE),
        ("visibility-callback.enabled", "false", "Morrow cannot call Java classes"),
        ("metadata.iceberg.storage", "disabled", "Morrow does not keep Iceberg metadata beside Paimon's"),
        ("orc.timestamp-ltz.legacy.type", "true", "Morrow writes ORC's instants as Paimon does by default"),
    )
}
"""Key -> its values that change nothing, and why any other is refused."""

NEWER_KEYS = frozenset(
    (
        *("blob-view-field", "data-evolution.row-sidecar.enabled", "deletion-vectors.merge-on-read"),
        *("manifest-sort.enabled", "pk-bitmap.index.columns", "pk-btree.index.columns", "pk-full-text.index.columns"),
        *("pk-multivalue.index.columns", "pk-vector.index.columns", "postpone.merge-on-read"),
        *("postpone.target-row-num-per-bucket", "postpone.target-size-per-bucket", "primary-key.nullable"),
        *("sequence.snapshot-ordering", "target-file-row-num", "write.sequence-number-init-mode"),
    )
)
"""Options of Paimon 2.0 that change what is written."""

PROPOSED_KEYS = frozenset(("tag.create-time", "tag.create-interval"))
"""Options of the proposal for tags that Paimon has under other names; `morrow.engine.options.tagging` reads them."""

LOOK_ALIKE = frozenset(("scan.infer-parallelism", "scan.watermark.idle-timeout", "partition.mark-done-action.mode"))
"""Options of Flink that are named almost like options of Paimon."""
