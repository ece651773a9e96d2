package morrow.spark.jvm.scans;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.LongBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.collection.BitSet;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** Spark's own scan of known files, filtered by masks: one bit for each row, found by the row's number in its file. */
public final class FileScans {
    private static final String ROW = "_tmp_metadata_row_index"; // Spark's Parquet readers fill this column
    private static final String ORC = "orc";
    private static final ObjectMapper JSON = new ObjectMapper();

    private FileScans() {}

    /** The live rows of the files that `described` names; `masks` contains the bits of all masks, and may be empty. */
    public static Dataset frame(SparkSession spark, String described, byte[] numbers, byte[] masks, boolean spread) throws Exception {
        Map scan = (Map) JSON.readValue(described, Map.class);
        StructType stored = (StructType) DataType.fromJson((String) scan.get("stored"));
        StructType constants = (StructType) DataType.fromJson((String) scan.get("constants"));
        Object[][] partitions = Constants.rows((List) scan.get("partitions"), constants);
        String first = (String) scan.get("first");
        boolean counted = masks.length > 0 && ORC.equals(scan.get("format")); // the ORC reader does not number rows
        if (masks.length > 0) {
            constants = constants.add(first, DataTypes.LongType, false);
        }
        if (masks.length > 0 && !counted) {
            stored = stored.add(ROW, DataTypes.LongType);
        }
        String[] paths = (String[]) ((List) scan.get("paths")).toArray(new String[0]);
        KnownFiles files = new KnownFiles(
            (String) scan.get("folder"), paths, numbers, partitions, constants, (String) scan.get("anchor"), (String) scan.get("expired"),
            spark);
        scala.collection.immutable.Map options = options((Map) scan.get("options"));
        LogicalPlan plan = counted
            ? WholeFiles.numbered(new WholeFiles(files, stored, options, spark), ROW)
            : LogicalRelation$.MODULE$.apply(
                new HadoopFsRelation(files, constants, stored, scala.Option.empty(), format((String) scan.get("format")), options, spark), false);
        Map columns = byName(plan);
        if (masks.length > 0) {
            Expression at = (Expression) columns.get(first);
            Expression live = live(spark, masks, at, (Expression) columns.get(ROW), spread);
            boolean some = Boolean.TRUE.equals(scan.get("unmasked"));
            Expression unmasked = new org.apache.spark.sql.catalyst.expressions.LessThan(at, new Literal(Long.valueOf(0), DataTypes.LongType));
            plan = new org.apache.spark.sql.catalyst.plans.logical.Filter(some ? new Or(unmasked, live) : live, plan);
        }
        ArrayBuffer kept = new ArrayBuffer(8);
        for (Object name : (List) scan.get("columns")) {
            kept.$plus$eq(columns.get(name));
        }
        Dataset rows = Dataset.ofRows(spark, new Project((Seq) kept.toSeq(), plan));
        int tasks = counted ? WholeFiles.tasks(files, spark) : paths.length;
        return tasks < paths.length ? rows.coalesce(tasks) : rows;
    }

    private static FileFormat format(String name) {
        return ORC.equals(name) ? (FileFormat) new Orc() : new Parquet();
    }

    private static Map byName(LogicalPlan plan) {
        Map found = new HashMap();
        scala.collection.Iterator output = plan.output().iterator();
        while (output.hasNext()) {
            Attribute column = (Attribute) output.next();
            found.put(column.name(), column);
        }
        return found;
    }

    private static scala.collection.immutable.Map options(Map given) {
        scala.collection.immutable.Map found = (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();
        for (Object name : given.keySet()) {
            found = (scala.collection.immutable.Map) found.updated(name, given.get(name));
        }
        return found;
    }

    /** Whether the bit of a row is set. Uses only Spark's classes, so that executors do not need ours; additions skip overflow checks. */
    private static Expression live(SparkSession spark, byte[] masks, Expression first, Expression row, boolean spread) throws Exception {
        Expression set;
        if (spread) { // as Java's bits: the optimiser would evaluate Spark's bits outside of the broadcast
            Object bits = java.util.BitSet.valueOf(longs(masks));
            Broadcast sent = new JavaSparkContext(spark.sparkContext()).broadcast(bits);
            set = invoke(new Literal(sent, new ObjectType(Broadcast.class)), "value", new ObjectType(java.util.BitSet.class), none());
        } else { // as Spark's bits, which are not printed in plans
            set = new Literal(bits(masks), new ObjectType(BitSet.class));
        }
        Expression sum = call(Long.class, "sum", DataTypes.LongType, list(first, new KnownNotNull(row)));
        return invoke(set, "get", DataTypes.BooleanType, list(call(Math.class, "toIntExact", DataTypes.IntegerType, list(sum, null)), null));
    }

    private static BitSet bits(byte[] masks) throws Exception {
        BitSet bits = new BitSet(masks.length * 8);
        Field words = BitSet.class.getDeclaredField("words");
        words.setAccessible(true);
        longs(masks).get((long[]) words.get(bits));
        return bits;
    }

    private static LongBuffer longs(byte[] masks) {
        return ByteBuffer.wrap(masks).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    }

    /** Nothing is null here; declaring values nullable would make Spark test for nulls, in files too. */
    private static Expression invoke(Expression target, String method, DataType type, Seq arguments) {
        return new Invoke(target, method, type, arguments, none(), false, false, true);
    }

    private static Expression call(Class holder, String method, DataType type, Seq arguments) {
        return new StaticInvoke(holder, type, method, arguments, none(), false, false, true, scala.Option.empty());
    }

    private static Seq none() {
        return (Seq) new ArrayBuffer(0).toSeq();
    }

    private static Seq list(Expression one, Expression other) {
        ArrayBuffer all = new ArrayBuffer(2);
        all.$plus$eq(one);
        if (other != null) {
            all.$plus$eq(other);
        }
        return (Seq) all.toSeq();
    }
}
