package morrow.spark.jvm;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.ResolvePartitionSpec$;
import org.apache.spark.sql.catalyst.analysis.ResolvedPartitionSpec;
import org.apache.spark.sql.catalyst.analysis.UnresolvedPartitionSpec;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** ALTER TABLE ... DROP PARTITION by the first partition keys only; Spark itself requires all of them. */
final class PartitionPrefix {
    private static final int PARTS = 1; // children of DropPartitions: table, partitions, and two words
    private final SessionState state;
    private final Names names;

    PartitionPrefix(SessionState state, Names names) {
        this.state = state;
        this.names = names;
    }

    /** The statement with all partitions instead of a prefix; without a prefix it is left to Spark, which refuses it. */
    TreeNode dropped(TreeNode plan) {
        Object[] parts = Plans.parts(plan);
        Target table = parts[0] instanceof UnresolvedTable ? target(((UnresolvedTable) parts[0]).multipartIdentifier()) : null;
        if (table == null) {
            return plan;
        }
        boolean isChanged = false;
        ArrayBuffer all = new ArrayBuffer(4);
        scala.collection.Iterator given = ((Seq) parts[PARTS]).iterator();
        while (given.hasNext()) {
            Object one = given.next();
            StructType prefix = one instanceof UnresolvedPartitionSpec ? prefix(table, (UnresolvedPartitionSpec) one) : null;
            if (prefix == null) {
                all.$plus$eq(one);
            } else {
                isChanged = true;
                add(all, table, prefix, (UnresolvedPartitionSpec) one);
            }
        }
        parts[PARTS] = all.toSeq();
        return isChanged ? plan.makeCopy(parts) : plan;
    }

    private Target target(Seq name) {
        Names.Place place = names.place(name);
        Table found = place == null ? names.ofSpark(name) : place.table();
        return found instanceof Target ? (Target) found : null;
    }

    /** The named keys, if they are not all, and the first keys unless it is a format table. */
    private StructType prefix(Target table, UnresolvedPartitionSpec given) {
        StructType keys = table.partitionSchema(), prefix = new StructType();
        boolean isFirst = true;
        for (int i = 0; i < keys.length(); i++) {
            if (valueOf(given, keys.apply(i).name()) != null) {
                prefix = prefix.add(keys.apply(i));
                isFirst &= prefix.length() == i + 1;
            }
        }
        boolean isKnown = prefix.length() == given.spec().size() && !prefix.isEmpty() && prefix.length() < keys.length();
        return isKnown && (isFirst || table.isOfFiles()) ? prefix : null;
    }

    private scala.Option valueOf(UnresolvedPartitionSpec given, String key) {
        scala.collection.Iterator all = given.spec().iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            String name = (String) one._1();
            if (state.conf().caseSensitiveAnalysis() ? name.equals(key) : name.equalsIgnoreCase(key)) {
                return scala.Option.apply(one._2());
            }
        }
        return null;
    }

    private void add(ArrayBuffer all, Target table, StructType prefix, UnresolvedPartitionSpec given) {
        Map values = new HashMap();
        for (int i = 0; i < prefix.length(); i++) {
            scala.Option value = valueOf(given, prefix.apply(i).name());
            values.put(prefix.apply(i).name(), value.isDefined() ? value.get() : null);
        }
        InternalRow wanted = ResolvePartitionSpec$.MODULE$.convertToPartIdent((scala.collection.immutable.Map) Plans.scalaMap(values), prefix.toList());
        InternalRow[] found = table.listPartitionIdentifiers(prefix.names(), wanted);
        ArrayBuffer keys = new ArrayBuffer(4);
        for (int i = 0; i < table.partitionSchema().length(); i++) {
            keys.$plus$eq(table.partitionSchema().apply(i).name());
        }
        for (int i = 0; i < found.length; i++) {
            all.$plus$eq(new ResolvedPartitionSpec((Seq) keys.toSeq(), found[i].copy(), scala.Option.empty()));
        }
    }
}
