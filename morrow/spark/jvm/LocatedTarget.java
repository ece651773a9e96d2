package morrow.spark.jvm;

import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of Spark's own catalog that accepts writes: the newest state of the table at a path, unless options choose another. */
final class LocatedTarget extends Target {
    private final Located located;
    private String known;

    LocatedTarget(Located located, MorrowTable state) {
        super(state.catalogName, state.catalog, state.identifier, described(state));
        this.located = located;
    }

    private static Map described(MorrowTable state) {
        Map described = new HashMap(state.described);
        described.put("schema", state.described("columns to write"));
        return described;
    }

    Map question(String verb) {
        Map question = super.question(verb);
        question.put("place", new HashMap(located.options));
        return question;
    }

    public String name() {
        return located.name();
    }

    /** Notes the name in Spark's own catalog, which passes only options to a format. */
    void called(DataSourceV2Relation relation) {
        Identifier name = (Identifier) relation.identifier().get();
        known = quoted(((CatalogPlugin) relation.catalog().get()).name());
        for (int i = 0; i < name.namespace().length; i++) {
            known = known + "." + quoted(name.namespace()[i]);
        }
        known = known + "." + quoted(name.name());
    }

    String quotedName() {
        return known;
    }

    /** Not AUTOMATIC_SCHEMA_EVOLUTION: Spark's own catalog would change only its own record of the columns. */
    public Set capabilities() {
        return EnumSet.of(
            TableCapability.BATCH_READ,
            TableCapability.MICRO_BATCH_READ,
            TableCapability.BATCH_WRITE,
            TableCapability.V1_BATCH_WRITE,
            TableCapability.TRUNCATE,
            TableCapability.OVERWRITE_BY_FILTER,
            TableCapability.OVERWRITE_DYNAMIC);
    }

    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
        return located.isOwn(given) ? super.newScanBuilder(new CaseInsensitiveStringMap(located.options)) : located.newScanBuilder(given);
    }

    MorrowTable with(CaseInsensitiveStringMap others) {
        return this;
    }
}
