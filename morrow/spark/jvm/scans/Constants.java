package morrow.spark.jvm.scans;

import java.util.Base64;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** Partition values, which are passed as text: bytes in Base64, instants in UTC. */
final class Constants {
    private Constants() {}

    static Object[][] rows(List partitions, StructType columns) {
        Object[][] rows = new Object[partitions.size()][];
        for (int i = 0; i < rows.length; i++) {
            List values = (List) partitions.get(i);
            rows[i] = new Object[values.size()];
            for (int k = 0; k < rows[i].length; k++) {
                rows[i][k] = value((String) values.get(k), columns.fields()[k].dataType());
            }
        }
        return rows;
    }

    private static Object value(String text, DataType type) {
        if (text == null) {
            return null;
        }
        if (type instanceof BinaryType) {
            return Base64.getDecoder().decode(text);
        }
        Literal literal = new Literal(UTF8String.fromString(text), DataTypes.StringType);
        if (type.equals(DataTypes.StringType)) {
            return literal.value();
        }
        Object found = new Cast(literal, type, new scala.Some("UTC")).eval(null);
        if (found == null) {
            throw new IllegalArgumentException("a partition of " + type.sql() + " has the value " + text);
        }
        return found;
    }
}
