package morrow.spark.jvm;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Statistics;

/** What metadata tells of the rows of a scan, for the planner of joins: it costs queries time where it is wrong, and no rows. */
final class Estimates implements Statistics {
    private final Map told;
    private final double part;

    /** `part`: of the width of all columns that of the columns which are read. */
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
