package morrow.spark.jvm;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RowLevelWrite;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.StringRPad;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Product;
import scala.collection.mutable.ArrayBuffer;

/** The rule that replaces the scan of a table in a query by the plan of its rows, with the names and ids of the query. */
public class ReadPlans extends Rule {
    /** Commands that Spark's own catalog executes completely, or that only read it. */
    private static final List OF_CATALOG = Arrays.asList((Object[]) new String[] {
        "DropTable", "RenameTable", "RefreshTable", "DescribeRelation", "DescribeColumn", "DescribeTablePartition",
        "ShowTableProperties", "ShowColumns", "ShowCreateTable", "CacheTable", "UncacheTable"});
    /** Commands that change a table's rows, but nothing in Spark's own catalog. */
    private static final List OF_ROWS = Arrays.asList((Object[]) new String[] {
        "ShowPartitions", "TruncateTable", "TruncatePartition", "DropPartitions"});

    public TreeNode apply(TreeNode plan) {
        if (plan instanceof Command) {
            refuseOfLocated((LogicalPlan) plan);
        }
        if (Commands.changesRows(plan)) {
            return plan; // The target has to remain the table; Commands plans the read.
        }
        MaxPartition.refuseOfColumns((LogicalPlan) plan);
        if (plan instanceof V2WriteCommand) {
            noteDerivation((V2WriteCommand) plan);
        }
        TreeNode read = (TreeNode) ((LogicalPlan) plan).transformDown(new Scans(shuffled((LogicalPlan) plan)));
        boolean isWrite = read instanceof V2WriteCommand && !(read instanceof RowLevelWrite);
        return isWrite ? writable((V2WriteCommand) read, ((V2WriteCommand) plan).query()) : read;
    }

    /** Refuses commands that would change what Spark's own catalog stores about a table, but not the table. */
    private static void refuseOfLocated(LogicalPlan command) {
        scala.collection.Iterator parts = command.children().iterator();
        while (parts.hasNext()) {
            Object part = parts.next();
            Object table = part instanceof ResolvedTable ? ((ResolvedTable) part).table() : null;
            String name = command.getClass().getSimpleName();
            boolean isDone = OF_CATALOG.contains(name) || (table instanceof LocatedTarget && OF_ROWS.contains(name));
            if ((table instanceof Located || table instanceof LocatedTarget) && !isDone) {
                throw Refused.of("Unsupported", command.nodeName() + " of a table of Spark's own catalog is not supported;"
                    + " name the table by a catalog of morrow.spark.catalog");
            }
        }
    }

    /** The write, with columns NOT NULL if the columns of the query were: rows that are read do not have this information. */
    private static LogicalPlan writable(V2WriteCommand command, LogicalPlan before) {
        ArrayBuffer columns = new ArrayBuffer(8);
        scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) new ArrayBuffer(0).toSeq();
        scala.collection.Iterator wanted = before.output().iterator();
        scala.collection.Iterator given = command.query().output().iterator();
        boolean isChanged = false;
        while (given.hasNext()) {
            Attribute column = (Attribute) given.next();
            Attribute known = (Attribute) wanted.next();
            boolean isLost = column.nullable() && !known.nullable();
            isChanged |= isLost;
            Expression checked = new AssertNotNull(column, none);
            columns.$plus$eq(isLost
                ? new Alias(checked, column.name(), NamedExpression.newExprId(), none, scala.Option.empty(), none) : column);
        }
        return isChanged
            ? (LogicalPlan) command.withNewQuery(new Project((scala.collection.immutable.Seq) columns.toSeq(), command.query()))
            : (LogicalPlan) command;
    }

    /** Notes the scan behind a MERGE that only inserts: Spark plans it as an INSERT, which reads the same relation that it writes. */
    private static void noteDerivation(V2WriteCommand command) {
        MorrowWrite write = write((Product) command);
        if (write == null) {
            return;
        }
        Set written = ids((LogicalPlan) ((Product) command).productElement(0)); // Janino cannot resolve table() here
        scala.collection.Iterator leaves = command.query().collectLeaves().iterator();
        while (leaves.hasNext()) {
            LogicalPlan leaf = (LogicalPlan) leaves.next();
            Set read = ids(leaf);
            read.retainAll(written);
            if (!read.isEmpty() && leaf instanceof InMemoryRelation) {
                throw Refused.of("Unsupported", "MERGE that only inserts into a cached table is not supported; UNCACHE TABLE first");
            }
            if (!read.isEmpty() && isScan(leaf)) {
                Commands.refuseEvolution((LogicalPlan) command, write.table);
                write.derivedFrom((MorrowScan) ((DataSourceV2ScanRelation) leaf).scan());
            }
        }
    }

    /** The write of INSERT and similar commands, whose nodes differ between versions of Spark; null if it is not Morrow's. */
    private static MorrowWrite write(Product command) {
        scala.collection.Iterator parts = command.productIterator();
        while (parts.hasNext()) {
            Object part = parts.next();
            if (part instanceof scala.Some && ((scala.Some) part).get() instanceof MorrowWrite) {
                return (MorrowWrite) ((scala.Some) part).get();
            }
        }
        return null;
    }

    private static Set ids(LogicalPlan plan) {
        Set found = new HashSet();
        scala.collection.Iterator columns = plan.output().iterator();
        while (columns.hasNext()) {
            found.add(((Attribute) columns.next()).exprId());
        }
        return found;
    }

    /** The ids of the columns by which a query joins, groups or divides into windows: reads by such a bucket key spare a shuffle. */
    private static Set shuffled(LogicalPlan plan) {
        Set found = new HashSet();
        scala.collection.Iterator parts = plan.children().iterator();
        while (parts.hasNext()) {
            found.addAll(shuffled((LogicalPlan) parts.next()));
        }
        scala.collection.Iterator expressions = plan instanceof Join ? ((Join) plan).condition().iterator()
            : plan instanceof Aggregate ? ((Aggregate) plan).groupingExpressions().iterator()
            : plan instanceof Window ? ((Window) plan).partitionSpec().iterator() : null;
        while (expressions != null && expressions.hasNext()) {
            found.addAll(ids((Expression) expressions.next()));
        }
        return found;
    }

    private static Set ids(Expression expression) {
        Set found = new HashSet();
        scala.collection.Iterator columns = expression.references().iterator();
        while (columns.hasNext()) {
            found.add(((Attribute) columns.next()).exprId());
        }
        return found;
    }

    private static boolean isScan(Object node) {
        return node instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) node).scan() instanceof MorrowScan;
    }

    static final class Scans extends scala.runtime.AbstractPartialFunction {
        private final Set shuffled;

        Scans(Set shuffled) {
            this.shuffled = shuffled;
        }

        public boolean isDefinedAt(Object node) {
            return isScan(node) && !keepsBuckets((DataSourceV2ScanRelation) node);
        }

        /** Whether the query shuffles by the bucket key. */
        private boolean keepsBuckets(DataSourceV2ScanRelation relation) {
            return relation.keyGroupedPartitioning().isDefined()
                && shuffled.containsAll(ids((Expression) ((scala.collection.Seq) relation.keyGroupedPartitioning().get()).head()));
        }

        public Object applyOrElse(Object node, scala.Function1 otherwise) {
            if (!isDefinedAt(node)) {
                return otherwise.apply(node);
            }
            DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) node;
            MorrowScan scan = (MorrowScan) relation.scan();
            boolean pads = Boolean.parseBoolean(SQLConf.get().getConfString("spark.sql.readSideCharPadding", "true"));
            return renamed(scan.plan(), relation.output(), pads ? scan.columns() : new StructType());
        }
    }

    static LogicalPlan renamed(LogicalPlan made, scala.collection.immutable.Seq wanted) {
        return renamed(made, wanted, new StructType());
    }

    /** The plan with the attributes of another one. Values of CHAR columns are padded, which files may not have done. */
    private static LogicalPlan renamed(LogicalPlan made, scala.collection.immutable.Seq wanted, StructType types) {
        Map columns = new HashMap();
        scala.collection.Iterator there = made.output().iterator();
        while (there.hasNext()) {
            Attribute column = (Attribute) there.next();
            columns.put(column.name(), column);
        }
        ArrayBuffer named = new ArrayBuffer(8);
        scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) new ArrayBuffer(0).toSeq();
        scala.collection.Iterator all = wanted.iterator();
        while (all.hasNext()) {
            Attribute a = (Attribute) all.next();
            named.$plus$eq(new Alias(padded((Attribute) columns.get(a.name()), types), a.name(), a.exprId(), a.qualifier(), scala.Option.empty(), none));
        }
        return new Project((scala.collection.immutable.Seq) named.toSeq(), made);
    }

    private static Expression padded(Attribute column, StructType types) {
        scala.Option place = types.getFieldIndex(column.name());
        DataType type = place.isDefined() ? types.fields()[((Integer) place.get()).intValue()].dataType() : null;
        if (!(type instanceof CharType)) {
            return column;
        }
        Expression length = Literal.create(Integer.valueOf(((CharType) type).length()), DataTypes.IntegerType);
        return new StringRPad(column, length, Literal.create(" ", DataTypes.StringType));
    }
}
