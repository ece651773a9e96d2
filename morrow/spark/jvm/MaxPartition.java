package morrow.spark.jvm;

import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** sys.max_pt('table'): the maximum of the first partition column. Spark computes it when it plans a query. */
public final class MaxPartition implements UnboundFunction, ScalarFunction {
    static final String NAME = "max_pt";
    private final String catalog;

    MaxPartition(String catalog) {
        this.catalog = catalog;
    }

    public String name() {
        return NAME;
    }

    public String canonicalName() {
        return "morrow." + catalog + "." + NAME;
    }

    public String description() {
        return "sys.max_pt('table'): the greatest value of the first partition column";
    }

    public BoundFunction bind(StructType given) {
        if (given.length() != 1) {
            throw new UnsupportedOperationException("max_pt takes the name of a table");
        }
        return this;
    }

    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.StringType};
    }

    public DataType resultType() {
        return DataTypes.StringType;
    }

    /** Refuses calls of the function that remain after Spark has simplified a query: they depend on rows, which only tasks have. */
    static void refuseOfColumns(TreeNode node) {
        if (node instanceof LogicalPlan) {
            refuseOfAll(((LogicalPlan) node).expressions());
        } else if (node instanceof ApplyFunctionExpression && ((ApplyFunctionExpression) node).function() instanceof MaxPartition) {
            throw refused();
        }
        refuseOfAll(node.children());
    }

    private static void refuseOfAll(scala.collection.Seq nodes) {
        scala.collection.Iterator all = nodes.iterator();
        while (all.hasNext()) {
            refuseOfColumns((TreeNode) all.next());
        }
    }

    private static RuntimeException refused() {
        return new UnsupportedOperationException("max_pt of anything but the name of a table as a literal is not supported");
    }

    public Object produceResult(InternalRow row) {
        if (TaskContext.get() != null || row.isNullAt(0)) {
            throw refused(); // the driver knows this class when a task throws it
        }
        return UTF8String.fromString((String) Python.ask(catalog, Questions.of("max partition", "name", row.getString(0))));
    }
}
