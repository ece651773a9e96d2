package morrow.spark.jvm.scans;

import java.util.function.Function;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.PrunedScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Rows that tasks of Python make, of the columns that a query needs: which those are is known when Spark plans it. */
public final class TaskRows extends BaseRelation implements PrunedScan {
    private final SparkSession spark;
    private final StructType schema;
    private final long size;
    private final String title;
    private final Function rows;

    private TaskRows(SparkSession spark, StructType schema, long size, String title, Function rows) {
        this.spark = spark;
        this.schema = schema;
        this.size = size;
        this.title = title;
        this.rows = rows;
    }

    /** The rows that `rows` gives for columns, given by their numbers: a Dataset of these columns in this order. */
    public static Dataset frame(SparkSession spark, String schema, long size, String title, Function rows) {
        TaskRows relation = new TaskRows(spark, (StructType) DataType.fromJson(schema), size, title, rows);
        return Dataset.ofRows(spark, LogicalRelation$.MODULE$.apply(relation, false));
    }

    public SQLContext sqlContext() {
        return spark.sqlContext();
    }

    public StructType schema() {
        return schema;
    }

    public long sizeInBytes() {
        return size;
    }

    /** Rows are Spark's own already. */
    public boolean needConversion() {
        return false;
    }

    public RDD buildScan(String[] columns) {
        StringBuilder numbers = new StringBuilder();
        for (int i = 0; i < columns.length; i++) {
            numbers.append(i == 0 ? "" : ",").append(schema.fieldIndex(columns[i]));
        }
        return ((Dataset) rows.apply(numbers.toString())).queryExecution().toRdd();
    }

    public String toString() {
        return title;
    }
}
