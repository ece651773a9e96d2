package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** DELETE, UPDATE or MERGE on a state of a table. Spark plans the changed rows; Python writes and commits them. */
public final class MorrowChange implements RowLevelOperationBuilder, SupportsDelta, Derivation.Reads {
    final Target table;
    private final RowLevelOperation.Command command;
    private final List scans = new ArrayList();

    MorrowChange(Target table, RowLevelOperation.Command command) {
        this.table = table;
        this.command = command;
    }

    public RowLevelOperation build() {
        table.refuseWhereSet();
        if (table.isOfFiles()) {
            throw Refused.of("Unsupported", command + " of a format table is not supported; it is a folder of files, without keys and places of rows");
        }
        if (table.rowId().isEmpty()) {
            throw Refused.of("Unsupported", command + " of a table with columns that are named as the hidden ones is not supported; rename them");
        }
        return this;
    }

    public RowLevelOperation.Command command() {
        return command;
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        ScanBuilder scan = new MorrowScan(table, options);
        scans.add(scan);
        return scan;
    }

    public NamedReference[] rowId() {
        return named(table.rowId());
    }

    /** The ids that new versions of rows keep, if they are not what identifies the rows. */
    public NamedReference[] requiredMetadataAttributes() {
        return named((List) table.described("carried"));
    }

    private static NamedReference[] named(List names) {
        NamedReference[] columns = new NamedReference[names.size()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = Expressions.column(MorrowTable.quoted((String) names.get(i)));
        }
        return columns;
    }

    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new Planned(this);
    }

    public String description() {
        return command + " " + table.name();
    }

    public String toString() {
        return description();
    }

    /** The filters by which the table's rows were read, if they were read once; otherwise empty, which means all rows. */
    public List filters() {
        return scans.size() == 1 && table.reads() == 0 ? ((MorrowScan) scans.get(0)).told() : new ArrayList();
    }

    public boolean isOf(Object write) {
        return write instanceof Planned && ((Planned) write).change == this;
    }

    public void forget() {
        scans.clear();
    }

    /** The write as Spark plans it, before Commands replaces it. */
    static final class Planned implements DeltaWriteBuilder, DeltaWrite {
        final MorrowChange change;

        Planned(MorrowChange change) {
            this.change = change;
        }

        public DeltaWrite build() {
            return this;
        }

        public String toString() {
            return change.description();
        }
    }

    /** The write as it is executed: the changed rows go to Python as a Dataset, with their kinds in the first column. */
    static final class Execution implements V1Write, InsertableRelation {
        private final MorrowChange change;

        Execution(MorrowChange change) {
            this.change = change;
        }

        public InsertableRelation toInsertableRelation() {
            return this;
        }

        public void insert(Dataset rows, boolean overwrite) {
            Map question = change.table.writing("change");
            question.put("command", change.command.toString());
            question.put("assigned", change.table.assigned());
            Python.ask(change.table.catalog, question, new Derivation(change.table, change, rows));
            change.table.refreshCaches(rows);
        }

        public String toString() {
            return change.description();
        }
    }
}
