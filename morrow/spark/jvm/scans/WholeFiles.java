package morrow.spark.jvm.scans;

import java.util.Collections;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.paths.SparkPath;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.orc.OrcOptions;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.orc.OrcPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/**
 * ORC files, read by Spark's own reader, each whole and in its own partition, so that counting the rows gives their numbers.
 * Conditions of a query must not skip rows, since the count would be wrong.
 */
final class WholeFiles implements Table, SupportsRead {
    private static final long ROWS_OF_A_PARTITION = (1L << 33) - 1; // the partition is in the upper bits of Spark's row numbers

    private final KnownFiles files;
    private final StructType stored;
    private final scala.collection.immutable.Map options;
    private final SparkSession spark;

    WholeFiles(KnownFiles files, StructType stored, scala.collection.immutable.Map options, SparkSession spark) {
        this.files = files;
        this.stored = stored;
        this.options = options;
        this.spark = spark;
    }

    /** The rows with their numbers in their files. Conditions cannot be pushed below them: numbers depend on all rows before. */
    static org.apache.spark.sql.catalyst.plans.logical.LogicalPlan numbered(WholeFiles files, String name) {
        Dataset rows = Dataset.ofRows(
            files.spark, DataSourceV2Relation.create(files, (scala.Option) scala.Option.empty(), (scala.Option) scala.Option.empty()));
        org.apache.spark.sql.Column number = org.apache.spark.sql.functions.monotonically_increasing_id();
        return rows.withColumn(name, number.bitwiseAND(Long.valueOf(ROWS_OF_A_PARTITION))).queryExecution().analyzed();
    }

    /** As many tasks as Spark would use for the files; a task may read several files, one after another. */
    static int tasks(KnownFiles files, SparkSession spark) {
        SQLConf conf = spark.sessionState().conf();
        long bytes = files.sizeInBytes() + files.count() * conf.filesOpenCostInBytes();
        long wanted = bytes / Math.max(1L, conf.filesMaxPartitionBytes()) + 1;
        return (int) Math.min(files.count(), Math.max(wanted, spark.sparkContext().defaultParallelism()));
    }

    public String name() {
        return files.toString();
    }

    public StructType schema() {
        return with(stored);
    }

    public Set capabilities() {
        return Collections.singleton(TableCapability.BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
        return new WholeFileScan(this);
    }

    /** These columns and the constants of files. */
    StructType with(StructType columns) {
        StructType all = columns;
        StructField[] constants = files.partitionSchema().fields();
        for (int i = 0; i < constants.length; i++) {
            all = all.add(constants[i]);
        }
        return all;
    }

    /** The columns that are stored in files. */
    StructType read(StructType wanted) {
        StructType read = new StructType();
        StructField[] fields = wanted.fields();
        for (int i = 0; i < fields.length; i++) {
            if (stored.getFieldIndex(fields[i].name()).isDefined()) {
                read = read.add(fields[i]);
            }
        }
        return read;
    }

    long size(StructType read) {
        return (long) (files.sizeInBytes() * (1.0 + read.defaultSize()) / (1.0 + stored.defaultSize()));
    }

    InputPartition[] partitions() {
        Seq none = (Seq) new ArrayBuffer(0).toSeq();
        scala.collection.IndexedSeq found = files.listFiles(none, none).toIndexedSeq();
        long[] sizes = new long[found.size()];
        for (int i = 0; i < sizes.length; i++) {
            sizes[i] = status(found, i).getLen();
        }
        int[] order = Balance.order(sizes, tasks(files, spark));
        InputPartition[] made = new InputPartition[sizes.length];
        for (int i = 0; i < made.length; i++) {
            PartitionDirectory one = (PartitionDirectory) found.apply(order[i]);
            FileStatus file = status(found, order[i]);
            PartitionedFile whole = new PartitionedFile(
                one.values(), SparkPath.fromPath(file.getPath()), 0L, file.getLen(), new String[0], 0L, file.getLen(), KnownFiles.nothing());
            made[i] = new FilePartition(i, new PartitionedFile[] {whole});
        }
        return made;
    }

    private static FileStatus status(scala.collection.IndexedSeq found, int file) {
        return ((FileStatusWithMetadata) ((PartitionDirectory) found.apply(file)).files().apply(0)).fileStatus();
    }

    PartitionReaderFactory reader(StructType read) {
        Configuration hadoop = spark.sessionState().newHadoopConfWithOptions(options);
        Broadcast sent = new JavaSparkContext(spark.sparkContext()).broadcast(new SerializableConfiguration(hadoop));
        SQLConf conf = spark.sessionState().conf();
        return new OrcPartitionReaderFactory(
            conf, sent, stored, read, files.partitionSchema(), new org.apache.spark.sql.sources.Filter[0], scala.Option.empty(),
            new OrcOptions(options, conf), MemoryMode.ON_HEAP);
    }
}
