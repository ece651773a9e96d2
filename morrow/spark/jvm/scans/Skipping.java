package morrow.spark.jvm.scans;

import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/**
 * Removes filters by which files must not skip rows: filters on FLOAT and DOUBLE columns. Statistics ignore NaN, which SQL sorts above
 * all numbers, and dictionaries distinguish -0.0 from 0.0, which are equal in SQL. Spark tests the rows in any case. In ORC, filters on
 * dates are removed too: Spark converts them to a hybrid calendar and the executor's time zone, where some dates do not exist.
 */
final class Skipping {
    private Skipping() {}

    /** The filters by which files may skip rows; filters on dates only if `dates`. */
    static Seq asked(Seq filters, StructType stored, boolean dates) {
        ArrayBuffer kept = new ArrayBuffer(4);
        scala.collection.Iterator all = filters.iterator();
        while (all.hasNext()) {
            org.apache.spark.sql.sources.Filter filter = (org.apache.spark.sql.sources.Filter) all.next();
            if (!asks(filter, stored, dates)) {
                kept.$plus$eq(filter);
            }
        }
        return (Seq) kept.toSeq();
    }

    private static boolean asks(org.apache.spark.sql.sources.Filter filter, StructType stored, boolean dates) {
        String[][] columns = filter.v2references();
        for (int i = 0; i < columns.length; i++) {
            StructField[] fields = stored.fields();
            for (int k = 0; k < fields.length; k++) {
                if (fields[k].name().equalsIgnoreCase(columns[i][0]) && holds(fields[k].dataType(), dates)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static boolean holds(DataType type, boolean dates) {
        if (type instanceof StructType) {
            StructField[] fields = ((StructType) type).fields();
            for (int i = 0; i < fields.length; i++) {
                if (holds(fields[i].dataType(), dates)) {
                    return true;
                }
            }
            return false;
        }
        if (type instanceof ArrayType) {
            return holds(((ArrayType) type).elementType(), dates);
        }
        if (type instanceof MapType) {
            return holds(((MapType) type).keyType(), dates) || holds(((MapType) type).valueType(), dates);
        }
        return type instanceof FloatType || type instanceof DoubleType || !dates && type instanceof DateType;
    }
}

