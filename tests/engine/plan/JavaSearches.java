import org.apache.paimon.Snapshot;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.utils.SnapshotManager;

import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.*;
import java.util.function.LongFunction;

/** Writes java_searches.jsonl: which of some snapshots Java Paimon finds by time and by watermark. Argument: a folder. */
public class JavaSearches {
    static final int TABLES = 80;

    public static void main(String[] a) throws Exception {
        Random random = new Random(42);
        for (int table = 0; table < TABLES; table++) {
            int count = 1 + random.nextInt(table % 8 == 0 ? 40 : 9);
            long first = 1 + random.nextInt(3);
            List<Long> times = new ArrayList<>(), marks = new ArrayList<>();
            // Every third table has clocks that went back; small steps make equal times and watermarks frequent.
            long time = 100, mark = 100;
            int unmarked = table % 4 == 0 ? random.nextInt(count) : 0;
            for (int i = 0; i < count; i++) {
                time += random.nextInt(4) - (table % 3 == 0 ? 1 : 0);
                mark += random.nextInt(3);
                times.add(time);
                marks.add(i < unmarked ? null : mark);
            }
            if (table == 5) marks.set(count - 1, Long.MIN_VALUE);
            java.nio.file.Path root = Paths.get(a[0], "t" + table), folder = root.resolve("snapshot");
            Files.createDirectories(folder);
            for (int i = 0; i < count; i++) {
                String members = "\"version\": 3, \"id\": %d, \"schemaId\": 0, \"baseManifestList\": \"b\", \"deltaManifestList\": \"d\", "
                        + "\"commitUser\": \"u\", \"commitIdentifier\": 1, \"commitKind\": \"APPEND\", \"timeMillis\": %d, \"watermark\": %s, "
                        + "\"totalRecordCount\": 0, \"deltaRecordCount\": 0";
                String json = "{" + String.format(members, first + i, times.get(i), marks.get(i)) + "}";
                Files.writeString(folder.resolve("snapshot-" + (first + i)), json);
            }
            SnapshotManager manager = new SnapshotManager(new LocalFileIO(), new Path(root.toString()), null, null, null);
            System.out.printf("{\"first\": %d, \"times\": %s, \"watermarks\": %s, \"by_time\": %s, \"by_watermark\": %s}%n",
                    first, times, marks,
                    found(Collections.min(times), Collections.max(times), manager::earlierOrEqualTimeMills),
                    found(99, mark, manager::laterOrEqualWatermark));
        }
    }

    static String found(long low, long high, LongFunction<Snapshot> search) {
        List<String> found = new ArrayList<>();
        for (long value = low - 1; value <= high + 1; value++) {
            Snapshot snapshot = search.apply(value);
            found.add(String.format("\"%d\": %s", value, snapshot == null ? "null" : snapshot.id()));
        }
        return "{" + String.join(", ", found) + "}";
    }
}
