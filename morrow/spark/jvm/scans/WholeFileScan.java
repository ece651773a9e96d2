package morrow.spark.jvm.scans;

import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/** A scan of columns of `WholeFiles`. */
final class WholeFileScan implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsReportStatistics, Batch, Statistics {
    private final WholeFiles files;
    private StructType read;

    WholeFileScan(WholeFiles files) {
        this.files = files;
        this.read = files.read(files.schema());
    }

    public void pruneColumns(StructType wanted) {
        this.read = files.read(wanted);
    }

    public Scan build() {
        return this;
    }

    public StructType readSchema() {
        return files.with(read);
    }

    public String description() {
        return "ORC " + files.name();
    }

    public Batch toBatch() {
        return this;
    }

    public InputPartition[] planInputPartitions() {
        return files.partitions();
    }

    public PartitionReaderFactory createReaderFactory() {
        return files.reader(read);
    }

    public Statistics estimateStatistics() {
        return this;
    }

    public OptionalLong sizeInBytes() {
        return OptionalLong.of(files.size(read));
    }

    public OptionalLong numRows() {
        return OptionalLong.empty();
    }

    /** Spark reads equal scans only once. */
    public boolean equals(Object other) {
        return other instanceof WholeFileScan && files == ((WholeFileScan) other).files && read.equals(((WholeFileScan) other).read);
    }

    public int hashCode() {
        return 31 * System.identityHashCode(files) + read.hashCode();
    }
}
