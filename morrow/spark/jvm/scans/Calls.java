package morrow.spark.jvm.scans;

import java.util.function.Function;
import org.apache.spark.sql.api.python.PythonSQLUtils;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias$;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.collection.immutable.Seq;

/** The entry points for Python, as methods of one object: each call is one message to the JVM. */
public final class Calls {
    private static final String WIDE = "spark.sql.execution.arrow.useLargeVarTypes";
    private static final String INLINED = "spark.sql.execution.arrow.localRelationThreshold"; // below this size, rows are values in a plan

    public Dataset scan(SparkSession spark, String described, byte[] numbers, byte[] masks, boolean spread) throws Exception {
        return FileScans.frame(spark, described, numbers, masks, spread);
    }

    public String obstacle(SparkSession spark, String url, long size) {
        return Reach.obstacle(spark, url, size);
    }

    public Dataset rows(SparkSession spark, String schema, long size, String title, Function rows) {
        return TaskRows.frame(spark, schema, size, title, rows);
    }

    /**
     * The rows of a file in Arrow's stream format, held in memory from now on, each batch as a partition; `schema` is Spark's schema as
     * JSON. Null if this session needs wider types than the file has. Changes a setting temporarily, so calls must not overlap.
     */
    public Dataset given(SparkSession spark, String file, String schema) {
        SQLConf conf = spark.sessionState().conf();
        if (Boolean.parseBoolean(conf.getConfString(WIDE, "false"))) {
            return null;
        }
        String before = conf.contains(INLINED) ? conf.getConfString(INLINED) : null;
        conf.setConfString(INLINED, "0");
        try {
            return (Dataset) PythonSQLUtils.toDataFrame(PythonSQLUtils.readArrowStreamFromFile(file), schema, spark);
        } finally {
            if (before == null) {
                conf.unsetConf(INLINED);
            } else {
                conf.setConfString(INLINED, before);
            }
        }
    }

    /** The same rows in a projection with an alias. */
    public Dataset named(SparkSession spark, Dataset rows, String name) {
        LogicalPlan plan = rows.queryExecution().analyzed();
        return Dataset.ofRows(spark, SubqueryAlias$.MODULE$.apply(name, new Project((Seq) plan.output(), plan)));
    }
}
