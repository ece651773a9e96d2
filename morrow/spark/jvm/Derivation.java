package morrow.spark.jvm;

import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import scala.Product;

/** Rows that a statement derives from the table that it writes: Python can derive them again from a newer state. */
public final class Derivation {
    /** A write of derived rows. */
    public interface Reads {
        /** The filters by which the table's rows were read. */
        List filters();

        /** Whether the write of a plan is this one, or its equivalent in a plan that was made again. */
        boolean isOf(Object write);

        /** Forgets the filters by which the rows were read. */
        void forget();
    }

    private final Target table;
    private final org.apache.spark.sql.classic.SparkSession session;
    private final QueryExecution statement;
    private Reads write;
    private Dataset rows;

    Derivation(Target table, Reads write, Dataset rows) {
        this.table = table;
        this.write = write;
        this.rows = rows;
        this.session = ((org.apache.spark.sql.classic.Dataset) rows).sparkSession();
        String id = session.sparkContext().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        this.statement = id == null ? null : SQLExecution.getQueryExecution(Long.parseLong(id));
    }

    public Dataset rows() {
        return rows;
    }

    public String filters() {
        return Python.text(write.filters());
    }

    /** Whether the plan of the statement is known, so that the rows can be derived again. */
    public boolean isRepeatable() {
        return statement != null;
    }

    /** Derives the rows again from the state described as JSON, which has the same columns. */
    public void repeat(String described) {
        table.become(Python.parsed(described));
        write.forget();
        LogicalPlan plan = session.sessionState().executePlan(statement.analyzed(), CommandExecutionMode.SKIP()).optimizedPlan();
        rows = org.apache.spark.sql.classic.Dataset.ofRows(session, found(plan));
    }

    /** The query of the statement's write. */
    private LogicalPlan found(LogicalPlan plan) {
        Object there = plan instanceof V2WriteCommand ? written((Product) plan) : null;
        if (there != null) {
            write = there instanceof Reads ? (Reads) there : write;
            return ((V2WriteCommand) plan).query();
        }
        scala.collection.Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            LogicalPlan query = found((LogicalPlan) children.next());
            if (query != null) {
                return query;
            }
        }
        return null;
    }

    /** The write of a command, whose nodes differ between versions of Spark; null if it is another write. */
    private Object written(Product command) {
        scala.collection.Iterator parts = command.productIterator();
        while (parts.hasNext()) {
            Object part = parts.next();
            if (part instanceof scala.Some && write.isOf(((scala.Some) part).get())) {
                return ((scala.Some) part).get();
            }
        }
        return null;
    }
}
