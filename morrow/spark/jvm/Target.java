package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchPartitionException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.sources.AlwaysTrue;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table that accepts writes: the newest state of a branch. */
public class Target extends MorrowTable
        implements SupportsWrite, SupportsRowLevelOperations, SupportsDeleteV2, SupportsAtomicPartitionManagement {
    private static final String DEFAULT = "CURRENT_DEFAULT";

    Target(String catalogName, String catalog, Identifier identifier, Map described) {
        super(catalogName, catalog, identifier, described);
    }

    /** How a write with columns other than the table's finds its columns: "name" or "position"; null: the columns are the table's. */
    private String takes;
    /** Whether Casts has not yet cast the values of the write; until then, Spark does not compare their types. */
    private boolean isUncast;

    Target taking(String columns, boolean isUncast) {
        Target other = new Target(catalogName, catalog, identifier, described);
        other.takes = columns;
        other.isUncast = isUncast;
        return other;
    }

    String takes() {
        return takes;
    }

    boolean isUncast() {
        return isUncast;
    }

    Object[] identity() {
        return new Object[] {catalog, identifier, described("version"), takes, Boolean.valueOf(isUncast)};
    }

    boolean hasDefaults() {
        for (int i = 0; i < schema.length(); i++) {
            if (schema.apply(i).metadata().contains(DEFAULT)) {
                return true;
            }
        }
        return false;
    }

    /** A question about a write, to which session settings apply. */
    Map writing(String verb) {
        Map question = question(verb);
        question.put("settings", Questions.settings());
        return question;
    }

    /** The number of reads in this plan that are not part of a change: subqueries, sources, the query of an INSERT. */
    private int reads;

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        reads++;
        return super.newScanBuilder(options);
    }

    int reads() {
        return reads;
    }

    void become(Map described) {
        super.become(described);
        reads = 0;
    }

    public Set capabilities() {
        // BATCH_WRITE is for overwrites of the partitions of the rows, which Spark plans only with it; see Commands.
        Set all = new HashSet(EnumSet.of(
                TableCapability.BATCH_READ,
                TableCapability.MICRO_BATCH_READ,
                TableCapability.STREAMING_WRITE,
                TableCapability.BATCH_WRITE,
                TableCapability.V1_BATCH_WRITE,
                TableCapability.TRUNCATE,
                TableCapability.OVERWRITE_BY_FILTER,
                TableCapability.OVERWRITE_DYNAMIC));
        if (Commands.EVOLVES) {
            all.add(TableCapability.valueOf("AUTOMATIC_SCHEMA_EVOLUTION")); // missing in Spark 4.0
        }
        if (takes != null || isUncast) {
            all.add(TableCapability.ACCEPT_ANY_SCHEMA);
        }
        return all;
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        Map options = info.options().asCaseSensitiveMap();
        return (isKeyed() ? new MorrowWrite.Keyed(this, options) : new MorrowWrite(this, options)).of(info.queryId());
    }

    public boolean truncateTable() {
        Python.ask(catalog, question("truncate"));
        return true;
    }

    // Changes of rows

    boolean isKeyed() {
        return !((List) described("keys")).isEmpty();
    }

    /** Whether it is a format table, whose rows do not have a stable position. */
    boolean isOfFiles() {
        return ((List) described("places")).isEmpty();
    }

    /** The columns that identify a row: the primary key, or the row's position; empty if they cannot be read. */
    List rowId() {
        if (isKeyed()) {
            return (List) described("keys");
        }
        List places = (List) described("places");
        for (int i = 0; i < places.size(); i++) {
            if (typeOf((String) places.get(i)) == null || schema.getFieldIndex((String) places.get(i)).isDefined()) {
                return new ArrayList();
            }
        }
        return places;
    }

    /** The columns that an UPDATE or MERGE sets; null if they are not known. */
    private List assigned;

    List assigned() {
        return assigned;
    }

    void assign(List columns) {
        assigned = columns;
    }

    /** Refuses changes of rows while session settings choose the state to read. */
    void refuseWhereSet() {
        List set = (List) described("set");
        if (set != null && !set.isEmpty()) {
            Python.ask(catalog, question("check change"));
        }
    }

    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        return new MorrowChange(this, info.command());
    }

    /** Notes the name under which Spark knows the table, if it differs from the catalog's. */
    void called(DataSourceV2Relation relation) {}

    /** Invalidates the table's rows in Spark's cache, after a write that Spark has not planned itself. */
    void refreshCaches(Dataset written) {
        org.apache.spark.sql.classic.SparkSession session = ((org.apache.spark.sql.classic.Dataset) written).sparkSession();
        if (!session.sharedState().cacheManager().isEmpty()) {
            session.catalog().refreshTable(quotedName());
        }
    }

    /** Whether Morrow can delete by these predicates, without rows read by Spark. */
    public boolean canDeleteWhere(Predicate[] predicates) {
        List filters = told(predicates);
        return filters != null && Boolean.TRUE.equals(Python.ask(catalog, deletion("can delete", filters)));
    }

    public void deleteWhere(Predicate[] predicates) {
        Python.ask(catalog, deletion("delete", told(predicates)));
    }

    private Map deletion(String verb, List filters) {
        Map question = writing(verb);
        question.put("filters", filters);
        return question;
    }

    /** The predicates as filters (an empty array: all rows); null if one cannot be expressed as a filter. */
    private static List told(Predicate[] predicates) {
        List told = new ArrayList();
        for (int i = 0; i < predicates.length; i++) {
            Filter filter = Values.filter(predicates[i]);
            List one = filter == null ? null : Values.filter(filter);
            if (one != null) {
                told.add(one);
            } else if (!(filter instanceof AlwaysTrue)) {
                return null;
            }
        }
        return told;
    }

    // Partitions

    public StructType partitionSchema() {
        StructType keys = new StructType();
        List names = (List) described("partitions");
        for (int i = 0; i < names.size(); i++) {
            keys = keys.add(schema.apply((String) names.get(i)));
        }
        return keys;
    }

    public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow wanted) {
        StructType keys = partitionSchema();
        InternalRow[] all = Python.rows(catalog, question("partitions")).queryExecution().executedPlan().executeCollect();
        List found = new ArrayList();
        for (int i = 0; i < all.length; i++) {
            boolean same = true;
            for (int k = 0; k < names.length && same; k++) {
                int at = keys.fieldIndex(names[k]);
                DataType type = keys.apply(at).dataType();
                Object value = all[i].get(at, type);
                Object other = wanted.get(k, type);
                same = value == null ? other == null : value.equals(other);
            }
            if (same) {
                found.add(all[i]);
            }
        }
        return (InternalRow[]) found.toArray(new InternalRow[0]);
    }

    public boolean dropPartitions(InternalRow[] partitions) {
        Python.ask(catalog, question("drop partitions", partitions));
        return true;
    }

    Map question(String verb, InternalRow[] partitions) {
        StructType keys = partitionSchema();
        List all = new ArrayList();
        for (int i = 0; i < partitions.length; i++) {
            List values = new ArrayList();
            for (int k = 0; k < keys.length(); k++) {
                DataType type = keys.apply(k).dataType();
                values.add(Values.told(CatalystTypeConverters.convertToScala(partitions[i].get(k, type), type)));
            }
            all.add(values);
        }
        Map question = question(verb);
        question.put("partitions", all);
        return question;
    }

    public boolean truncatePartition(InternalRow partition) throws NoSuchPartitionException {
        if (isOfFiles() && !partitionExists(partition)) {
            throw new NoSuchPartitionException(name(), partition, partitionSchema());
        }
        return truncatePartitions(new InternalRow[] {partition});
    }

    public boolean truncatePartitions(InternalRow[] partitions) {
        Python.ask(catalog, question("truncate partitions", partitions));
        return true;
    }

    public void createPartitions(InternalRow[] partitions, Map[] properties) {
        for (int i = 0; i < properties.length; i++) {
            if (!properties[i].isEmpty()) {
                throw Refused.of("Unsupported", "ADD PARTITION with LOCATION is not supported; leave LOCATION out, the table's folder has the partitions");
            }
        }
        Python.ask(catalog, question("create partitions", partitions));
    }

    public void replacePartitionMetadata(InternalRow partition, Map properties) {
        throw Refused.of("Unsupported", "properties of a partition are not supported; it has none");
    }

    /** The statistics of a partition, which SHOW TABLE EXTENDED ... PARTITION shows. */
    public Map loadPartitionMetadata(InternalRow partition) {
        return (Map) Python.ask(catalog, question("partition statistics", new InternalRow[] {partition}));
    }
}
