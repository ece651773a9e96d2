package morrow.spark.jvm;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A state of a table, as described by Python: every query loads it again. In plans it is shown as its name. */
public class MorrowTable implements SupportsRead, SupportsMetadataColumns {
    private static final int NEAR = 4; // stack frames, counted from the caller of Table.columns
    final String catalog;
    final Identifier identifier;
    final StructType schema;
    final String catalogName;
    Map described;

    MorrowTable(String catalogName, String catalog, Identifier identifier, Map described) {
        this.catalogName = catalogName;
        this.catalog = catalog;
        this.identifier = identifier;
        this.described = described;
        this.schema = (StructType) DataType.fromJson((String) described.get("schema"));
    }

    static MorrowTable of(String catalogName, String catalog, Identifier identifier, Map described) {
        if (described.get("staged") != null) {
            return new StagedTarget(catalogName, catalog, identifier, described);
        }
        boolean writable = Boolean.TRUE.equals(described.get("writable"));
        return writable ? new Target(catalogName, catalog, identifier, described) : new MorrowTable(catalogName, catalog, identifier, described);
    }

    /** The table without its writes, for reads whose options name it besides choosing what is read. */
    static MorrowTable named(Object table, String[] names) {
        if (!(table instanceof MorrowTable)) {
            throw Refused.of("Unsupported", "the option '" + names[0] + "' of a catalog that is not Morrow's is not supported; read it by spark.table");
        }
        return new Named((MorrowTable) table, names);
    }

    static Map without(Map options, String[] names) {
        Map left = options;
        for (int i = 0; i < names.length; i++) {
            left = Plans.without(left, names[i]);
        }
        return left;
    }

    static final class Named extends MorrowTable {
        private final String[] names;

        Named(MorrowTable table, String[] names) {
            super(table.catalogName, table.catalog, table.identifier, table.described);
            this.names = names;
        }

        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return super.newScanBuilder(new CaseInsensitiveStringMap(without(options.asCaseSensitiveMap(), names)));
        }
    }

    /** A question about this state. */
    Map question(String verb) {
        return Questions.of(verb, "table", described.get("table"), "state", described.get("state"));
    }

    /** Switches to another state with the same columns; for the plan of one statement, which is not shared. */
    void become(Map described) {
        this.described = described;
    }

    Object described(String key) {
        return described.get(key);
    }

    public String name() {
        return catalogName + "." + String.join(".", identifier.namespace()) + "." + identifier.name();
    }

    String quotedName() {
        return quoted(catalogName) + "." + quoted(identifier.namespace()[0]) + "." + quoted(identifier.name());
    }

    boolean hasPartitions() {
        return !((List) described.get("partitions")).isEmpty();
    }

    static String quoted(String name) {
        return "`" + name.replace("`", "``") + "`";
    }

    /** The columns. In relations VARCHAR is STRING, as Spark itself makes it for queries but not for streams. */
    public StructType schema() {
        StackTraceElement[] callers = new Throwable().getStackTrace();
        boolean isRelation = false;
        for (int i = 1; i < Math.min(callers.length, NEAR); i++) {
            isRelation |= callers[i].getClassName().contains("RelationResolution");
        }
        return isRelation ? CharVarcharUtils.replaceCharVarcharWithStringInSchema(schema) : schema;
    }

    public Transform[] partitioning() {
        List keys = (List) described.get("partitions");
        Transform[] transforms = new Transform[keys.size()];
        for (int i = 0; i < transforms.length; i++) {
            transforms[i] = Expressions.identity(quoted((String) keys.get(i)));
        }
        return transforms;
    }

    public Map properties() {
        return (Map) described.get("properties");
    }

    /** The hidden columns: the position of a row, its partition, bucket and id. */
    public MetadataColumn[] metadataColumns() {
        List hidden = (List) described.get("hidden");
        MetadataColumn[] columns = new MetadataColumn[hidden == null ? 0 : hidden.size()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = new Hidden((Map) hidden.get(i));
        }
        return columns;
    }

    /** The type of a column, hidden or not; null if there is no column of this name. */
    DataType typeOf(String name) {
        scala.Option place = schema.getFieldIndex(name);
        if (place.isDefined()) {
            return schema.fields()[((Integer) place.get()).intValue()].dataType();
        }
        MetadataColumn[] hidden = metadataColumns();
        for (int i = 0; i < hidden.length; i++) {
            if (hidden[i].name().equals(name)) {
                return hidden[i].dataType();
            }
        }
        return null;
    }

    static final class Hidden implements MetadataColumn {
        private final Map described;

        Hidden(Map described) {
            this.described = described;
        }

        public String name() {
            return (String) described.get("name");
        }

        public DataType dataType() {
            return DataType.fromJson((String) described.get("type"));
        }

        public boolean isNullable() {
            return Boolean.TRUE.equals(described.get("nullable"));
        }
    }

    public Set capabilities() {
        boolean streams = Boolean.TRUE.equals(described.get("streams"));
        return streams ? EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ) : EnumSet.of(TableCapability.BATCH_READ);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new MorrowScan(this, options);
    }

    /** The state that the options of a read name, with the same columns. */
    MorrowTable with(CaseInsensitiveStringMap options) {
        if (options.isEmpty()) {
            return this;
        }
        Map question = question("read options");
        question.put("columns", schema.json());
        question.put("options", new HashMap(options.asCaseSensitiveMap()));
        Map other = new HashMap(described);
        other.putAll((Map) Python.ask(catalog, question));
        return new MorrowTable(catalogName, catalog, identifier, other);
    }

    public boolean equals(Object other) {
        return other instanceof MorrowTable && Arrays.equals(identity(), ((MorrowTable) other).identity());
    }

    public int hashCode() {
        return Arrays.hashCode(identity());
    }

    Object[] identity() {
        return new Object[] {catalog, identifier, described.get("version")};
    }

    public String toString() {
        return name();
    }
}
