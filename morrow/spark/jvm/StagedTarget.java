package morrow.spark.jvm;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A table that is filled before it becomes visible under its name. */
public final class StagedTarget extends Target implements StagedTable {
    private Runnable removal;

    StagedTarget(String catalogName, String catalog, Identifier identifier, Map described) {
        super(catalogName, catalog, identifier, described);
    }

    /** Removes a table of another catalog, which has the name, before this one gets it. */
    StagedTarget insteadOf(Runnable removal) {
        this.removal = removal;
        return this;
    }

    public void commitStagedChanges() {
        if (removal != null) {
            removal.run();
        }
        Python.ask(catalog, staged("publish table"));
    }

    public void abortStagedChanges() {
        Python.ask(catalog, staged("discard table"));
    }

    /** Two interfaces of Spark 4.3 have this method, each with a default. */
    public CustomTaskMetric[] reportDriverMetrics() {
        return new CustomTaskMetric[0];
    }

    private Map staged(String verb) {
        Map question = question(verb);
        question.put("staged", described("staged"));
        return question;
    }
}
