package morrow.spark.jvm;

import java.util.List;
import java.util.Map;
import org.apache.spark.Partition;
import org.apache.spark.ShuffleDependency;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/** The rows of a table with one partition for each bucket, so that joins and groups by the bucket key need no shuffle. */
final class Buckets implements Batch {
    private final String catalog;
    private final Map question;
    private final List numbers;

    /** question: that of the rows; numbers: the buckets that have rows. */
    Buckets(String catalog, Map question, List numbers) {
        this.catalog = catalog;
        this.question = question;
        this.numbers = numbers;
    }

    static NamedReference column(Object name) {
        return Expressions.column(MorrowTable.quoted((String) name));
    }

    /** Ascending by these columns. */
    static org.apache.spark.sql.connector.expressions.SortOrder[] order(List columns) {
        org.apache.spark.sql.connector.expressions.SortOrder[] order = new org.apache.spark.sql.connector.expressions.SortOrder[columns.size()];
        for (int i = 0; i < order.length; i++) {
            order[i] = Expressions.sort(column(columns.get(i)), SortDirection.ASCENDING);
        }
        return order;
    }

    public InputPartition[] planInputPartitions() {
        question.put("numbers", numbers);
        List frames = Python.frames(catalog, question);
        InputPartition[] partitions = new InputPartition[frames.size()];
        for (int i = 0; i < partitions.length; i++) {
            RDD rows = ((org.apache.spark.sql.classic.Dataset) frames.get(i)).queryExecution().toRdd();
            refuseShuffles(rows);
            partitions[i] = new Bucket(((Number) numbers.get(i)).intValue(), rows, rows.partitions());
        }
        return partitions;
    }

    /** Finds the dependencies of all stages, which tasks do not find themselves. A task cannot read a shuffle of its own. */
    private static void refuseShuffles(RDD rows) {
        scala.collection.Iterator all = rows.dependencies().iterator();
        while (all.hasNext()) {
            org.apache.spark.Dependency each = (org.apache.spark.Dependency) all.next();
            if (each instanceof ShuffleDependency) {
                throw Refused.of("Unsupported", "a read by buckets with a shuffle; SET spark.sql.sources.v2.bucketing.enabled = false");
            }
            refuseShuffles(each.rdd());
        }
    }

    public PartitionReaderFactory createReaderFactory() {
        return new Readers();
    }

    /** A bucket: its number, its rows and their partitions. */
    static final class Bucket implements HasPartitionKey {
        final int number;
        final RDD rows;
        final Partition[] partitions;

        Bucket(int number, RDD rows, Partition[] partitions) {
            this.number = number;
            this.rows = rows;
            this.partitions = partitions;
        }

        public InternalRow partitionKey() {
            return new GenericInternalRow(new Object[] {Integer.valueOf(number)});
        }
    }

    static final class Readers implements PartitionReaderFactory {
        public PartitionReader createReader(InputPartition partition) {
            return new Rows((Bucket) partition);
        }
    }

    /** The rows of a bucket, one partition after another. */
    static final class Rows implements PartitionReader {
        private final Bucket bucket;
        private int next = 0;
        private scala.collection.Iterator rows;

        Rows(Bucket bucket) {
            this.bucket = bucket;
        }

        public boolean next() {
            while (rows == null || !rows.hasNext()) {
                if (next == bucket.partitions.length) {
                    return false;
                }
                rows = bucket.rows.iterator(bucket.partitions[next++], TaskContext.get());
            }
            return true;
        }

        public Object get() {
            return rows.next();
        }

        public void close() {}
    }

    /** The function that maps keys to buckets, which Spark only compares: its name has all that decides its results. */
    static final class Hash implements UnboundFunction, BoundFunction {
        static final String PREFIX = "morrow bucket ";
        private final String name;

        Hash(String name) {
            this.name = name;
        }

        public String name() {
            return name;
        }

        public String canonicalName() {
            return name;
        }

        public String description() {
            return name;
        }

        public BoundFunction bind(StructType given) {
            return this;
        }

        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.NullType};
        }

        public DataType resultType() {
            return DataTypes.IntegerType;
        }

        public boolean equals(Object other) {
            return other instanceof Hash && name.equals(((Hash) other).name);
        }

        public int hashCode() {
            return name.hashCode();
        }
    }
}
