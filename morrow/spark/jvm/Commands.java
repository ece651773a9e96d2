package morrow.spark.jvm;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.ResolvedPartitionSpec;
import org.apache.spark.sql.catalyst.analysis.ResolvedTable;
import org.apache.spark.sql.catalyst.plans.logical.DeleteFromTable;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeIntoTable;
import org.apache.spark.sql.catalyst.plans.logical.OverwritePartitionsDynamic;
import org.apache.spark.sql.catalyst.plans.logical.ShowCreateTable;
import org.apache.spark.sql.catalyst.plans.logical.UpdateTable;
import org.apache.spark.sql.catalyst.plans.logical.WriteDelta;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.v2.AppendDataExecV1;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2;
import org.apache.spark.sql.execution.streaming.sources.MicroBatchWrite;
import org.apache.spark.sql.sources.InsertableRelation;
import scala.collection.mutable.ArrayBuffer;

/** The strategy for plans that Spark's own strategies would refuse: it comes before them. A plan does nothing until it is executed. */
public class Commands extends SparkStrategy {
    private static final Pattern EVOLUTION = Pattern.compile("\\bWITH\\s+SCHEMA\\s+EVOLUTION\\b", Pattern.CASE_INSENSITIVE);

    private static final String[] EVOLVING = {"ResolveSchemaEvolution", "ResolveMergeIntoSchemaEvolution"};
    /** Whether this version of Spark lets the catalog add columns WITH SCHEMA EVOLUTION, when it analyses the statement. */
    static final boolean EVOLVES = hasRuleOf(EVOLVING);

    private static boolean hasRuleOf(String[] names) {
        for (int i = 0; i < names.length; i++) {
            try {
                Class.forName("org.apache.spark.sql.catalyst.analysis." + names[i], false, LogicalPlan.class.getClassLoader());
                return true;
            } catch (ClassNotFoundException error) {
                continue;
            }
        }
        return false;
    }

    public scala.collection.immutable.Seq apply(LogicalPlan plan) {
        SparkPlan found = planned(plan);
        ArrayBuffer all = new ArrayBuffer(1);
        if (found != null) {
            all.$plus$eq(found);
        }
        return (scala.collection.immutable.Seq) all.toSeq();
    }

    private SparkPlan planned(LogicalPlan plan) {
        if (plan instanceof OverwritePartitionsDynamic) {
            OverwritePartitionsDynamic overwrite = (OverwritePartitionsDynamic) plan;
            if (overwrite.write().isDefined() && overwrite.write().get() instanceof MorrowWrite) {
                DataSourceV2Relation relation = (DataSourceV2Relation) overwrite.productElement(0); // Janino cannot resolve table() here
                ((Target) relation.table()).called(relation);
                return new AppendDataExecV1((SupportsWrite) relation.table(), overwrite.query(), new Nothing(), (V1Write) overwrite.write().get());
            }
        }
        if (plan instanceof WriteDelta) {
            WriteDelta write = (WriteDelta) plan;
            if (write.write().isDefined() && write.write().get() instanceof MorrowChange.Planned) {
                MorrowChange change = ((MorrowChange.Planned) write.write().get()).change;
                refuseEvolution(plan, change.table);
                change.table.called((DataSourceV2Relation) write.productElement(0));
                return changed(change, write.query());
            }
        }
        if (plan instanceof WriteToDataSourceV2 && ((WriteToDataSourceV2) plan).batchWrite() instanceof MicroBatchWrite) {
            Object write = ((MicroBatchWrite) ((WriteToDataSourceV2) plan).batchWrite()).writeSupport();
            if (write instanceof StreamWrite.Planned) {
                return new StreamWrite((StreamWrite.Planned) write, planLater(((WriteToDataSourceV2) plan).query()));
            }
        }
        if (plan instanceof ShowCreateTable && !((ShowCreateTable) plan).asSerde()) {
            Object shown = ((ShowCreateTable) plan).child();
            Object table = shown instanceof ResolvedTable ? ((ResolvedTable) shown).table() : null;
            if (table instanceof LocatedTarget) {
                return null; // created again from what Spark's own catalog stores
            }
            if (table instanceof MorrowView) {
                MorrowView view = (MorrowView) table;
                return rows(plan, new Object[][] {{Python.ask(view.catalog, view.question("show create view"))}});
            }
            if (table instanceof MorrowTable && !(table instanceof Target)) {
                throw Refused.of("Unsupported", "SHOW CREATE TABLE of a system table or a folder of files is not supported");
            }
            return table instanceof Target ? shown((Target) table, plan) : null;
        }
        if (plan.nodeName().startsWith("Describe") && plan.children().size() > 0 && plan.children().apply(0) instanceof ResolvedTable) {
            Object table = ((ResolvedTable) plan.children().apply(0)).table();
            if (table instanceof Target) {
                return partition((Target) table, plan);
            }
            return table instanceof MorrowView ? described((MorrowView) table, plan) : null;
        }
        return changesRows(plan) ? others((LogicalPlan) plan.children().apply(0), plan) : null;
    }

    /** The statement that creates a table; Spark's own statement contains COLLATE, which older versions and Paimon do not support. */
    private SparkPlan shown(Target table, LogicalPlan command) {
        return rows(command, new Object[][] {{Python.ask(table.catalog, table.question("show create"))}});
    }

    private SparkPlan described(MorrowView view, LogicalPlan command) {
        return described(view.catalog, view.question("describe view"), command);
    }

    /** DESCRIBE ... PARTITION, which Spark refuses before 4.3, and later answers without statistics; null without a partition. */
    private SparkPlan partition(Target table, LogicalPlan command) {
        Object[] parts = Plans.parts(command);
        for (int i = 0; i < parts.length; i++) {
            if (parts[i] instanceof ResolvedPartitionSpec) {
                InternalRow values = ((ResolvedPartitionSpec) parts[i]).ident();
                return described(table.catalog, table.question("describe partition", new InternalRow[] {values}), command);
            }
        }
        int at = Plans.options(parts);
        if (at < 0 || ((scala.collection.immutable.Map) parts[at]).isEmpty()) {
            return null;
        }
        Map question = table.question("describe partition");
        question.put("spec", Plans.javaMap(parts[at]));
        return described(table.catalog, question, command);
    }

    /** The rows of DESCRIBE that Python answers. */
    private SparkPlan described(String catalog, Map question, LogicalPlan command) {
        question.put("extended", Boolean.valueOf(Arrays.asList(Plans.parts(command)).contains(Boolean.TRUE)));
        List found = (List) Python.ask(catalog, question);
        Object[][] rows = new Object[found.size()][];
        for (int i = 0; i < rows.length; i++) {
            rows[i] = ((List) found.get(i)).toArray();
        }
        return rows(command, rows);
    }

    private SparkPlan rows(LogicalPlan command, Object[][] values) {
        ArrayBuffer rows = new ArrayBuffer(values.length);
        for (int i = 0; i < values.length; i++) {
            rows.$plus$eq(RowFactory.create(values[i]));
        }
        return planLater(LocalRelation.fromExternalRows(command.output(), (scala.collection.immutable.Seq) rows.toSeq()));
    }

    private static SparkPlan changed(MorrowChange change, LogicalPlan rows) {
        return new AppendDataExecV1(change.table, rows, new Nothing(), new MorrowChange.Execution(change));
    }

    /** Refuses MERGE WITH SCHEMA EVOLUTION if Spark would leave the columns unchanged: the plan shows the clause only in its text. */
    static void refuseEvolution(LogicalPlan command, Target table) {
        scala.Option text = command.origin().sqlText();
        if (!Checks.evolves(table) && text.isDefined() && EVOLUTION.matcher((String) text.get()).find()) {
            throw Refused.of("Unsupported", "MERGE WITH SCHEMA EVOLUTION is not supported; " + Checks.advice(table));
        }
    }

    /** Whether a plan is an unchanged DELETE, UPDATE or MERGE: Spark has converted all supported ones to WriteDelta. */
    static boolean changesRows(Object plan) {
        return plan instanceof DeleteFromTable || plan instanceof UpdateTable || plan instanceof MergeIntoTable;
    }

    /** The remaining plans: DELETE of all rows, which Spark plans itself unless the table is cached, and tables without writes. */
    private static SparkPlan others(LogicalPlan read, LogicalPlan command) {
        scala.collection.Iterator leaves = read.collectLeaves().iterator();
        while (leaves.hasNext()) {
            Object leaf = leaves.next();
            DataSourceV2Relation relation = relation(leaf);
            Object table = relation == null ? null : relation.table();
            if (command instanceof DeleteFromTable && table instanceof Target && leaf == read) {
                ((Target) table).called(relation);
                return leaf instanceof InMemoryRelation ? new AppendDataExecV1((Target) table, read, new Nothing(), new Truncation((Target) table)) : null;
            }
            if (table instanceof MorrowTable) {
                throw Refused.of("Unsupported", command.nodeName() + " of this form, or of a table that nobody writes, is not supported");
            }
        }
        return null;
    }

    private static DataSourceV2Relation relation(Object leaf) {
        if (leaf instanceof InMemoryRelation) {
            scala.collection.Iterator cached = ((InMemoryRelation) leaf).cacheBuilder().logicalPlan().collectLeaves().iterator();
            return cached.hasNext() ? relation(cached.next()) : null;
        }
        if (leaf instanceof DataSourceV2ScanRelation) {
            return ((DataSourceV2ScanRelation) leaf).relation();
        }
        return leaf instanceof DataSourceV2Relation ? (DataSourceV2Relation) leaf : null;
    }

    /** TRUNCATE as a write without rows: the constructor of Spark's own node differs between versions. */
    static final class Truncation implements V1Write, InsertableRelation {
        private final Target table;

        Truncation(Target table) {
            this.table = table;
        }

        public InsertableRelation toInsertableRelation() {
            return this;
        }

        public void insert(Dataset rows, boolean overwrite) {
            table.truncateTable();
            table.refreshCaches(rows);
        }
    }

    /** The remaining work for Spark's caches: none, since the writes refresh them. */
    static final class Nothing extends scala.runtime.AbstractFunction0 {
        public Object apply() {
            return scala.runtime.BoxedUnit.UNIT;
        }
    }
}
