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
 * Filters that files are not asked to skip rows by: what FLOAT and DOUBLE columns hold. Statistics leave NaN out, which SQL has above
 * all other numbers, and dictionaries tell -0.0 from 0.0, which SQL has as equal. Spark tests the rows in any case. In ORC neither by
 * dates: Spark asks for those of a hybrid calendar and of the time zone of an executor, and some dates are missing there.
 */
final class Skipping {
    private Skipping() {}

    /** Those of the filters that files may skip by; by those on dates if `dates`. */
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

