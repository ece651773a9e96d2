package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwrite;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.sources.IsNull;

/** A write whose rows go to Python as a Dataset. */
public class MorrowWrite implements SupportsOverwrite, SupportsDynamicOverwrite, V1Write, InsertableRelation, Derivation.Reads {
    final Target table;
    private final Map options;
    private String mode = "append";
    private Map partition = new HashMap();
    private final List condition = new ArrayList();
    private boolean isEquality = true;
    private MorrowScan derivedFrom;
    private String query;

    MorrowWrite(Target table, Map options) {
        this.table = table;
        this.options = options;
    }

    public WriteBuilder truncate() {
        mode = "overwrite";
        return this;
    }

    public WriteBuilder overwriteDynamicPartitions() {
        mode = "dynamic";
        return this;
    }

    /** All columns are accepted, or refused by name; Spark's own refusal would print a stack trace. */
    public boolean canOverwrite(Predicate[] predicates) {
        return true;
    }

    public WriteBuilder overwrite(Predicate[] predicates) {
        Filter[] filters = new Filter[predicates.length];
        for (int i = 0; i < filters.length; i++) {
            filters[i] = Values.filter(predicates[i]);
            if (filters[i] == null) {
                throw refused(predicates[i].references());
            }
        }
        return overwrite(filters);
    }

    public WriteBuilder overwrite(Filter[] filters) {
        mode = "overwrite";
        for (int i = 0; i < filters.length; i++) {
            boolean isTaken;
            if (filters[i] instanceof EqualNullSafe) {
                isTaken = set(((EqualNullSafe) filters[i]).attribute(), ((EqualNullSafe) filters[i]).value());
            } else if (filters[i] instanceof EqualTo) {
                isTaken = set(((EqualTo) filters[i]).attribute(), ((EqualTo) filters[i]).value());
            } else {
                isTaken = filters[i] instanceof IsNull && set(((IsNull) filters[i]).attribute(), null);
            }
            isEquality &= isTaken;
            List told = Values.filter(filters[i]);
            if (told == null && !isTaken) {
                throw refused(filters[i].references());
            }
            condition.add(told);
        }
        return this;
    }

    private boolean set(String column, Object value) {
        return Values.isExact(value) && !partition.containsKey(column) && partition.put(column, Values.told(value)) == null;
    }

    private static RuntimeException refused(Object[] columns) {
        String where = columns.length == 0 ? "by a condition that is never true" : "where " + columns[0] + " meets this condition";
        return Refused.of("Unsupported", "to overwrite " + where + " is not supported; compare partition columns with values");
    }

    /** Notes the filters by which the table was read for these rows: the write is a conflict if others have changed these rows. */
    void derivedFrom(MorrowScan scan) {
        derivedFrom = scan;
    }

    public List filters() {
        return table.reads() == 1 ? derivedFrom.told() : new ArrayList();
    }

    public boolean isOf(Object write) {
        return write instanceof MorrowWrite && ((MorrowWrite) write).table == table && ((MorrowWrite) write).derivedFrom != null;
    }

    public void forget() {}

    public Write build() {
        return this;
    }

    /** The query, if a stream is writing. */
    MorrowWrite of(String query) {
        this.query = query;
        return this;
    }

    public StreamingWrite toStreaming() {
        Map question = table.writing("write batch");
        question.put("mode", mode);
        question.put("query", query);
        question.put("options", new HashMap(options));
        return new StreamWrite.Planned(table.catalog, question);
    }

    /** A write to a table with keys, in which updated rows of a stream replace earlier rows. */
    static final class Keyed extends MorrowWrite implements SupportsStreamingUpdateAsAppend {
        Keyed(Target table, Map options) {
            super(table, options);
        }
    }

    public InsertableRelation toInsertableRelation() {
        return this;
    }

    public void insert(Dataset rows, boolean overwrite) {
        Map question = table.writing("write");
        question.put("takes", table.takes());
        question.put("mode", mode);
        question.put("partition", partition);
        if (!isEquality) {
            question.put("condition", condition);
        }
        question.put("options", new HashMap(options));
        Python.ask(table.catalog, question, derivedFrom == null ? (Object) rows : new Derivation(table, this, rows));
        if (mode.equals("dynamic")) {
            table.refreshCaches(rows); // as Spark does if it plans the write itself
        }
    }

    public String toString() {
        return mode + " " + table.name();
    }
}
