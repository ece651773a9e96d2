package morrow.spark.jvm;

import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExecV1;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.mutable.ArrayBuffer;

/** The strategy that plans what Spark's own would refuse: it comes before them. A plan does nothing until it is executed. */
public class Commands extends SparkStrategy {
    public scala.collection.immutable.Seq apply(LogicalPlan plan) {
        ArrayBuffer planned = new ArrayBuffer(1);
        if (plan instanceof OverwritePartitionsDynamic) {
            OverwritePartitionsDynamic overwrite = (OverwritePartitionsDynamic) plan;
            if (overwrite.write().isDefined() && overwrite.write().get() instanceof MorrowWrite) {
                DataSourceV2Relation relation = (DataSourceV2Relation) overwrite.productElement(0); // Janino does not know which table() is meant
                planned.$plus$eq(new AppendDataExecV1((SupportsWrite) relation.table(), overwrite.query(), new Nothing(), (V1Write) overwrite.write().get()));
            }
        }
        if (changesRows(plan)) {
            refuse((LogicalPlan) plan.children().apply(0), plan.nodeName());
        }
        return (scala.collection.immutable.Seq) planned.toSeq();
    }

    /** Whether a plan is DELETE, UPDATE or MERGE. */
    static boolean changesRows(Object plan) {
        return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
    }

    private static void refuse(LogicalPlan target, String command) {
        scala.collection.Iterator leaves = target.collectLeaves().iterator();
        while (leaves.hasNext()) {
            Object leaf = leaves.next();
            boolean scanned = leaf instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) leaf).scan() instanceof MorrowScan;
            if (scanned || leaf instanceof DataSourceV2Relation && ((DataSourceV2Relation) leaf).table() instanceof MorrowTable) {
                throw Refused.of("Unsupported", command + " is not supported; use morrow.spark.delete, upsert, or morrow.open(path).merge");
            }
        }
    }

    /** What is left to do for Spark's caches: nothing, for they tell one state of a table from another. */
    static final class Nothing extends scala.runtime.AbstractFunction0 {
        public Object apply() {
            return scala.runtime.BoxedUnit.UNIT;
        }
    }
}
