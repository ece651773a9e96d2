import org.apache.paimon.Snapshot;
import org.apache.paimon.data.BinaryArray;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.index.DeletionVectorMeta;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.manifest.FileKind;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.manifest.ManifestEntry;
import org.apache.paimon.stats.SimpleStats;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.types.RowType;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The logical metadata of a table, snapshot by snapshot, without what is random: names, sizes, times. */
class Metadata {
    static List<Object> of(FileStoreTable table) throws Exception {
        List<Object> snapshots = new ArrayList<>();
        for (Iterator<Snapshot> i = table.snapshotManager().snapshots(); i.hasNext(); ) snapshots.add(snapshot(table, i.next()));
        return snapshots;
    }

    static Map<String, Object> snapshot(FileStoreTable table, Snapshot snapshot) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("id", snapshot.id());
        shown.put("schema_id", snapshot.schemaId());
        shown.put("kind", snapshot.commitKind().toString());
        shown.put("total_record_count", snapshot.totalRecordCount());
        shown.put("delta_record_count", snapshot.deltaRecordCount());
        shown.put("changelog_record_count", snapshot.changelogRecordCount());
        shown.put("watermark", snapshot.watermark());
        shown.put("statistics", snapshot.statistics() == null ? null : table.store().newStatsFileHandler().readStats(snapshot).get().toJson());
        List<Object> files = new ArrayList<>();
        for (ManifestEntry entry : table.store().newScan().withSnapshot(snapshot).plan().files(FileKind.ADD)) files.add(file(table, entry));
        shown.put("files", files);
        List<Object> indexes = new ArrayList<>();
        if (snapshot.indexManifest() != null) {
            for (IndexManifestEntry entry : table.store().newIndexFileHandler().scan(snapshot, e -> true)) indexes.add(index(table, entry));
        }
        shown.put("indexes", indexes);
        return shown;
    }

    static Map<String, Object> file(FileStoreTable table, ManifestEntry entry) {
        DataFileMeta file = entry.file();
        RowType type = table.schemaManager().schema(file.schemaId()).logicalRowType();
        RowType keys = table.primaryKeys().isEmpty() ? RowType.of() : type.project(table.schema().trimmedPrimaryKeys());
        RowType valued = file.valueStatsCols() == null ? type : type.project(file.valueStatsCols());
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("partition", Values.row(entry.partition(), table.schema().logicalPartitionType()));
        shown.put("bucket", entry.bucket());
        shown.put("total_buckets", entry.totalBuckets());
        shown.put("level", file.level());
        shown.put("row_count", file.rowCount());
        shown.put("delete_row_count", file.deleteRowCount().orElse(null));
        shown.put("min_sequence_number", file.minSequenceNumber());
        shown.put("max_sequence_number", file.maxSequenceNumber());
        shown.put("schema_id", file.schemaId());
        shown.put("file_source", file.fileSource().map(Object::toString).orElse(null));
        shown.put("min_key", row(file.minKey(), keys));
        shown.put("max_key", row(file.maxKey(), keys));
        shown.put("key_stats", stats(file.keyStats(), keys));
        shown.put("value_stats_cols", file.valueStatsCols());
        shown.put("value_stats", stats(file.valueStats(), valued));
        return shown;
    }

    static Object row(BinaryRow row, RowType type) {
        return row.getFieldCount() == type.getFieldCount() ? Values.row(row, type) : new ArrayList<>();
    }

    static Object stats(SimpleStats stats, RowType type) {
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("min", row(stats.minValues(), type));
        shown.put("max", row(stats.maxValues(), type));
        BinaryArray counts = stats.nullCounts();
        List<Object> nulls = new ArrayList<>();
        for (int i = 0; i < counts.size(); i++) nulls.add(counts.isNullAt(i) ? null : counts.getLong(i));
        shown.put("nulls", nulls);
        return shown;
    }

    static Map<String, Object> index(FileStoreTable table, IndexManifestEntry entry) {
        IndexFileMeta file = entry.indexFile();
        Map<String, Object> shown = new LinkedHashMap<>();
        shown.put("partition", Values.row(entry.partition(), table.schema().logicalPartitionType()));
        shown.put("bucket", entry.bucket());
        shown.put("type", file.indexType());
        shown.put("row_count", file.rowCount());
        List<Object> cardinalities = new ArrayList<>();
        if (file.dvRanges() != null) for (DeletionVectorMeta range : file.dvRanges().values()) cardinalities.add(range.cardinality());
        shown.put("cardinalities", cardinalities);
        return shown;
    }
}
