package morrow.spark.jvm;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Statistics;

/** Estimates from metadata for the planner of joins. A wrong estimate makes queries slower, but not incorrect. */
final class Estimates implements Statistics {
    private final Map told;
    private final double part;

    /** `part`: the width of the columns that are read as a fraction of the width of all columns. */
    Estimates(Map told, double part) {
        this.told = told;
        this.part = part;
    }

    public OptionalLong sizeInBytes() {
        Number bytes = (Number) told.get("bytes");
        return bytes == null ? OptionalLong.empty() : OptionalLong.of((long) (bytes.longValue() * part));
    }

    public OptionalLong numRows() {
        Number rows = (Number) told.get("rows");
        return rows == null ? OptionalLong.empty() : OptionalLong.of(rows.longValue());
    }
}
