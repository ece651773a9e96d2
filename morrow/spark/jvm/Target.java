package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A table that takes rows: the newest state of a branch. */
public class Target extends MorrowTable implements SupportsWrite, TruncatableTable, SupportsAtomicPartitionManagement {
    Target(String catalogName, String catalog, Identifier identifier, Map described) {
        super(catalogName, catalog, identifier, described);
    }

    public Set capabilities() {
        // BATCH_WRITE for overwrites of the partitions of the rows alone, which Spark plans only with it; see Commands.
        return EnumSet.of(
                TableCapability.BATCH_READ,
                TableCapability.BATCH_WRITE,
                TableCapability.V1_BATCH_WRITE,
                TableCapability.TRUNCATE,
                TableCapability.OVERWRITE_BY_FILTER,
                TableCapability.OVERWRITE_DYNAMIC);
    }

    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new MorrowWrite(this, info.options().asCaseSensitiveMap());
    }

    public boolean truncateTable() {
        Python.ask(catalog, question("truncate"));
        return true;
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
        Map question = question("drop partitions");
        question.put("partitions", all);
        Python.ask(catalog, question);
        return true;
    }

    public boolean truncatePartition(InternalRow partition) {
        return dropPartitions(new InternalRow[] {partition});
    }

    public boolean truncatePartitions(InternalRow[] partitions) {
        return dropPartitions(partitions);
    }

    public void createPartitions(InternalRow[] partitions, Map[] properties) {
        throw Refused.of("Unsupported", "ADD PARTITION is not supported; a partition is there when it has rows");
    }

    public void replacePartitionMetadata(InternalRow partition, Map properties) {
        throw Refused.of("Unsupported", "properties of a partition are not supported; it has none");
    }

    public Map loadPartitionMetadata(InternalRow partition) {
        return new java.util.HashMap();
    }
}
