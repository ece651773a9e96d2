package morrow.spark.jvm;

import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.execution.streaming.Sink;

/** The end of a stream whose batches go to Python as Datasets, each with its number and the query's id. */
final class BatchSink implements Sink {
    private static final String QUERY = "sql.streaming.queryId";
    private final String id;
    private final Map question;

    BatchSink(String id, Map question) {
        this.id = id;
        this.question = question;
    }

    public void addBatch(long batch, Dataset rows) {
        org.apache.spark.sql.classic.Dataset given = (org.apache.spark.sql.classic.Dataset) rows;
        // Spark would plan the rows again, without the state of the query, if they were used directly.
        RDD planned = given.queryExecution().toRdd();
        question.put("batch", Long.valueOf(batch));
        question.put("query", given.sparkSession().sparkContext().getLocalProperty(QUERY));
        Object written = Python.ask(id, question, given.sparkSession().internalCreateDataFrame(planned, rows.schema(), false));
        if (!Boolean.TRUE.equals(written)) {
            planned.count(); // was committed before, but tasks still have to compute the query's state of the batch
        }
    }

    public String toString() {
        return "morrow";
    }
}
