package morrow.spark.jvm.kept;

import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/** The files that Spark found at first. On refresh, Spark's own index would list them again and leave out missing files. */
public final class KeptFiles implements FileIndex {
    private final FileIndex found;

    public KeptFiles(FileIndex found) {
        this.found = found;
    }

    public Seq rootPaths() {
        return found.rootPaths();
    }

    public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
        return found.listFiles(partitionFilters, dataFilters);
    }

    public String[] inputFiles() {
        return found.inputFiles();
    }

    public void refresh() {}

    public long sizeInBytes() {
        return found.sizeInBytes();
    }

    public StructType partitionSchema() {
        return found.partitionSchema();
    }

    public Option metadataOpsTimeNs() {
        return found.metadataOpsTimeNs();
    }

    public boolean equals(Object other) {
        return other instanceof KeptFiles && found.equals(((KeptFiles) other).found);
    }

    public int hashCode() {
        return found.hashCode();
    }

    public String toString() {
        return found.toString();
    }
}
