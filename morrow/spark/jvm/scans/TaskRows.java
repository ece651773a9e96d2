package morrow.spark.jvm.scans;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.PrunedFilteredScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Rows made by Python tasks, limited to the columns and rows that a query needs, which are known when Spark plans the query. */
public final class TaskRows extends BaseRelation implements PrunedFilteredScan {
    private static final ObjectMapper JSON = new ObjectMapper();

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

    /** The rows that `rows` returns for column numbers and filters (as JSON): a Dataset of these columns in this order. */
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

    /** Rows already have Spark's own form. */
    public boolean needConversion() {
        return false;
    }

    /** Requests whole columns, and the rows that pass the filters that can be translated; Spark tests all filters again. */
    public RDD buildScan(String[] columns, Filter[] filters) {
        List numbers = new ArrayList();
        for (int i = 0; i < columns.length; i++) {
            numbers.add(Integer.valueOf(schema.fieldIndex(columns[i])));
        }
        List told = new ArrayList();
        for (int i = 0; i < filters.length; i++) {
            List filter = Values.filter(filters[i]);
            if (filter != null) {
                told.add(filter);
            }
        }
        Map asked = new HashMap();
        asked.put("columns", numbers);
        asked.put("filters", told);
        try {
            return ((Dataset) rows.apply(JSON.writeValueAsString(asked))).queryExecution().toRdd();
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new IllegalStateException(error);
        }
    }

    public String toString() {
        return title;
    }
}
