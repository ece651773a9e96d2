package morrow.spark.jvm.scans;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.Arrays;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** Files named by the driver, so that Spark lists nothing. Each has its partition values and, with masks, its first bit's number. */
public final class KnownFiles implements FileIndex {
    private static final int NUMBERS = 3;
    private static final long BLOCK = 128L << 20;

    private final String folder;
    private final String[] paths;
    private final long[] numbers; // of each file: size, row of `partitions`, first bit
    private final Object[][] partitions;
    private final StructType columns;
    private final boolean masked;
    private final String anchor;
    private final String expired;

    private final SparkSession spark;

    /**
     * Accepts paths below `folder`; `columns` are the columns of `partitions` and, with masks, the first bit. As long as the file
     * `anchor` exists, the files exist too; `expired` is the error for missing files. Both may be null.
     */
    KnownFiles(
        String folder, String[] paths, byte[] numbers, Object[][] partitions, StructType columns, String anchor, String expired, SparkSession spark) {
        this.anchor = anchor;
        this.expired = expired;
        this.spark = spark;
        this.folder = folder;
        this.paths = paths;
        this.partitions = partitions;
        this.columns = columns;
        LongBuffer packed = ByteBuffer.wrap(numbers).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
        this.numbers = new long[packed.remaining()];
        packed.get(this.numbers);
        this.masked = partitions.length > 0 && columns.size() > partitions[0].length;
    }

    int count() {
        return paths.length;
    }

    /** An empty Scala map. */
    static scala.collection.immutable.Map nothing() {
        return (scala.collection.immutable.Map) Map$.MODULE$.empty();
    }

    private InternalRow values(int file) {
        Object[] known = partitions[(int) numbers[NUMBERS * file + 1]];
        Object[] all = Arrays.copyOf(known, columns.size());
        if (masked) {
            all[known.length] = Long.valueOf(numbers[NUMBERS * file + 2]);
        }
        return new GenericInternalRow(all);
    }

    private Path path(int file) {
        return new Path(folder + paths[file]);
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        Pruning pruning = new Pruning(partitionFilters, columns);
        Presence presence = new Presence(spark);
        boolean sure = anchor == null || presence.has(new Path(anchor));
        ArrayBuffer found = new ArrayBuffer(paths.length);
        for (int i = 0; i < paths.length; i++) {
            InternalRow values = values(i);
            if (pruning.keeps(values)) {
                if (!sure && !presence.has(path(i))) {
                    throw new IllegalArgumentException(expired);
                }
                FileStatus status = new FileStatus(numbers[NUMBERS * i], false, 1, BLOCK, 0L, path(i));
                ArrayBuffer one = new ArrayBuffer(1);
                one.$plus$eq(new FileStatusWithMetadata(status, nothing()));
                found.$plus$eq(new PartitionDirectory(values, (Seq) one.toSeq()));
            }
        }
        return (Seq) found.toSeq();
    }

    public Seq rootPaths() {
        ArrayBuffer one = new ArrayBuffer(1);
        one.$plus$eq(new Path(folder));
        return (Seq) one.toSeq();
    }

    public String[] inputFiles() {
        String[] found = new String[paths.length];
        for (int i = 0; i < paths.length; i++) {
            found[i] = path(i).toUri().toString();
        }
        return found;
    }

    public void refresh() {}

    public long sizeInBytes() {
        long total = 0;
        for (int i = 0; i < paths.length; i++) {
            total += numbers[NUMBERS * i];
        }
        return total;
    }

    public StructType partitionSchema() {
        return columns;
    }

    public scala.Option metadataOpsTimeNs() {
        return scala.Option.empty();
    }

    /** Spark considers equal files with equal constants the same, and may then read them only once. */
    public boolean equals(Object other) {
        if (!(other instanceof KnownFiles)) {
            return false;
        }
        KnownFiles that = (KnownFiles) other;
        return folder.equals(that.folder) && columns.equals(that.columns) && Arrays.equals(numbers, that.numbers)
            && Arrays.equals(paths, that.paths) && Arrays.deepEquals(partitions, that.partitions);
    }

    public int hashCode() {
        return 31 * folder.hashCode() + Arrays.hashCode(numbers);
    }

    public String toString() {
        return "MorrowFiles(" + paths.length + " files of " + folder + ")";
    }
}
