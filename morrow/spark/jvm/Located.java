package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.V1Write;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.sources.InsertableRelation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table by its path and options. Python is asked about it only when its columns are requested: a write may create it. */
final class Located implements SupportsRead, SupportsWrite, SupportsMetadataColumns {
    private static final String FORMAT = "morrow";
    private final String id;
    final Map options;
    private final String expected;
    private final boolean isStream;
    private State state;

    /** expected: the schema that the user gave, as JSON; null without one. */
    Located(String id, Map options, String expected, boolean isStream) {
        this.id = id;
        this.options = options;
        this.expected = expected;
        this.isStream = isStream;
    }

    private State state() {
        if (state == null) {
            Map question = Questions.of("load", "options", new HashMap(options));
            question.put("columns", expected);
            question.put("stream", Boolean.valueOf(isStream));
            question.put("settings", Questions.settings());
            state = new State(id, options, (Map) Python.ask(id, question));
        }
        return state;
    }

    /** The state to read, described once so that all queries of a DataFrame have the same rows. */
    static final class State extends MorrowTable {
        private final Map options;

        State(String id, Map options, Map described) {
            super(FORMAT, id, Identifier.of(new String[0], (String) described.get("table")), described);
            this.options = options;
        }

        Map question(String verb) {
            Map question = super.question(verb);
            question.put("place", new HashMap(options));
            return question;
        }

        MorrowTable with(CaseInsensitiveStringMap others) {
            return this;
        }

        public String name() {
            return FORMAT + " " + identifier.name();
        }
    }

    public String name() {
        return state == null ? FORMAT : state.name();
    }

    public StructType schema() {
        return state().schema;
    }

    public Transform[] partitioning() {
        return state().partitioning();
    }

    public Map properties() {
        return state().properties();
    }

    public MetadataColumn[] metadataColumns() {
        return state().metadataColumns();
    }

    /** Not BATCH_WRITE: the format uses Spark's V1 writes, which support every mode. */
    public Set capabilities() {
        return EnumSet.of(
            TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.V1_BATCH_WRITE, TableCapability.TRUNCATE);
    }

    /** The table with all kinds of writes; this object if it cannot be loaded, or if options choose the state to read. */
    Table target() {
        try {
            return Boolean.TRUE.equals(state().described("writable")) ? new LocatedTarget(this, state()) : (Table) this;
        } catch (RuntimeException error) {
            return this; // a request for columns raises the error; DROP TABLE works
        }
    }

    /** The options of the table together with the options of a read. */
    private Map with(CaseInsensitiveStringMap given) {
        Map all = new HashMap(new CaseInsensitiveStringMap(options).asCaseSensitiveMap());
        all.putAll(given.asCaseSensitiveMap());
        return all;
    }

    /** Whether the options of a read add nothing to the table's options. */
    boolean isOwn(CaseInsensitiveStringMap given) {
        return new CaseInsensitiveStringMap(with(given)).equals(new CaseInsensitiveStringMap(options));
    }

    /** Reads this state, or the state chosen by options besides the table's, as Spark's catalog passes them. */
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
        if (isOwn(given)) {
            return new MorrowScan(state(), new CaseInsensitiveStringMap(options));
        }
        Map all = with(given);
        Located other = new Located(id, all, expected, isStream || MorrowFormat.isPlannedAsStream());
        if (!other.schema().equals(schema())) {
            throw Refused.of("Unsupported", "options that choose a state of " + name() + " with other columns are not supported; use .read.format('morrow')");
        }
        return new MorrowScan(other.state(), new CaseInsensitiveStringMap(all));
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        Map all = new HashMap(options);
        all.putAll(info.options().asCaseSensitiveMap());
        return new Insertion(id, all);
    }

    /** INSERT INTO and OVERWRITE, with rows in the columns of the table. */
    static final class Insertion implements SupportsTruncate, V1Write, InsertableRelation {
        private final String id;
        private final Map options;
        private String mode = "append";

        Insertion(String id, Map options) {
            this.id = id;
            this.options = options;
        }

        public WriteBuilder truncate() {
            mode = "overwrite";
            return this;
        }

        public Write build() {
            return this;
        }

        public InsertableRelation toInsertableRelation() {
            return this;
        }

        public void insert(Dataset rows, boolean overwrite) {
            Map question = Questions.of("insert", "mode", mode, "options", options);
            question.put("partitions", new ArrayList());
            question.put("settings", Questions.settings());
            Python.ask(id, question, rows);
        }

        public String toString() {
            return mode + " " + FORMAT;
        }
    }

    public boolean equals(Object other) {
        return other instanceof Located && options.equals(((Located) other).options) && state().equals(((Located) other).state());
    }

    public int hashCode() {
        return options.hashCode();
    }

    public String toString() {
        return name();
    }
}
