package morrow.spark.jvm;

import java.util.Map;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.mutable.ArrayBuffer;

/** The write of one batch of a stream: its rows, planned with the state of the query, go to Python as a Dataset. */
public final class StreamWrite extends SparkPlan {
    private static final String BATCH = "streaming.sql.batchId";
    private final Planned write;
    private final SparkPlan rows;

    public StreamWrite(Planned write, SparkPlan rows) {
        this.write = write;
        this.rows = rows;
    }

    public RDD doExecute() {
        RDD batch = rows.execute();
        Map question = write.question;
        question.put("batch", Long.valueOf(session().sparkContext().getLocalProperty(BATCH)));
        Object written = Python.ask(write.catalog, question, session().internalCreateDataFrame(batch, rows.schema(), false));
        if (!Boolean.TRUE.equals(written)) {
            batch.count(); // was committed before, but tasks still have to compute the query's state of the batch
        }
        return session().sparkContext().emptyRDD(scala.reflect.ClassTag$.MODULE$.apply(InternalRow.class));
    }

    public scala.collection.immutable.Seq output() {
        return (scala.collection.immutable.Seq) new ArrayBuffer(0).toSeq();
    }

    public scala.collection.immutable.Seq children() {
        ArrayBuffer all = new ArrayBuffer(1);
        all.$plus$eq(rows);
        return (scala.collection.immutable.Seq) all.toSeq();
    }

    public SparkPlan withNewChildrenInternal(scala.collection.immutable.IndexedSeq children) {
        return new StreamWrite(write, (SparkPlan) children.apply(0));
    }

    public int productArity() {
        return 2;
    }

    public Object productElement(int at) {
        return at == 0 ? (Object) write : rows;
    }

    public boolean canEqual(Object other) {
        return other instanceof StreamWrite;
    }

    public boolean equals(Object other) {
        return this == other;
    }

    public int hashCode() {
        return System.identityHashCode(this);
    }

    /** The write as Spark plans it, before Commands replaces it. */
    static final class Planned implements StreamingWrite {
        final String catalog;
        final Map question;

        Planned(String catalog, Map question) {
            this.catalog = catalog;
            this.question = question;
        }

        public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
            throw notPlanned();
        }

        public void commit(long batch, WriterCommitMessage[] messages) {
            throw notPlanned();
        }

        public void abort(long batch, WriterCommitMessage[] messages) {}

        public boolean useCommitCoordinator() {
            return false;
        }

        public String toString() {
            return "a batch to " + question.get("table");
        }

        private static RuntimeException notPlanned() {
            return Refused.of("Unsupported", "a stream that is written with Trigger.Continuous is not supported");
        }
    }
}
