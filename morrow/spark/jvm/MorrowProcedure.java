package morrow.spark.jvm;

import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A procedure of Paimon. Python describes its parameters and executes the call. */
public final class MorrowProcedure implements UnboundProcedure, BoundProcedure {
    private final String catalog;
    private final Identifier identifier;
    private List parameters;

    MorrowProcedure(String catalog, Identifier identifier) {
        this.catalog = catalog;
        this.identifier = identifier;
    }

    public String name() {
        return identifier.name();
    }

    public String description() {
        return "Paimon's procedure " + name();
    }

    /** Looks up the procedure here, not when it is loaded: Spark hides the message of an error while loading. */
    public BoundProcedure bind(StructType given) {
        Map question = Questions.of("procedure", "name", name());
        question.put("namespace", java.util.Arrays.asList((Object[]) identifier.namespace()));
        parameters = (List) Python.ask(catalog, question);
        return this;
    }

    public boolean isDeterministic() {
        return false;
    }

    /** The parameters. Spark does not bind a procedure with a subquery as argument, but still calls it. */
    private List bound() {
        if (parameters == null) {
            throw Refused.of("Unsupported", "CALL with a subquery as argument is not supported; give constants");
        }
        return parameters;
    }

    public ProcedureParameter[] parameters() {
        List parameters = bound();
        ProcedureParameter[] all = new ProcedureParameter[parameters.size()];
        for (int i = 0; i < all.length; i++) {
            Map told = (Map) parameters.get(i);
            ProcedureParameter.Builder builder = ProcedureParameter.in((String) told.get("name"), type(told));
            if (!Boolean.TRUE.equals(told.get("required"))) {
                builder.defaultValue("NULL");
            }
            all[i] = builder.build();
        }
        return all;
    }

    private static DataType type(Map told) {
        return DataType.fromDDL((String) told.get("type"));
    }

    public Iterator call(InternalRow row) {
        Map arguments = new HashMap();
        List parameters = bound();
        for (int i = 0; i < parameters.size(); i++) {
            Map told = (Map) parameters.get(i);
            arguments.put(told.get("name"), Values.told(CatalystTypeConverters.convertToScala(row.get(i, type(told)), type(told))));
        }
        org.apache.spark.sql.classic.Dataset found = Python.rows(catalog, Questions.of("call", "name", name(), "arguments", arguments));
        return Collections.singletonList(new Result(found)).iterator();
    }

    /** The few rows that a procedure returns. */
    static final class Result implements LocalScan {
        private final StructType schema;
        private final InternalRow[] rows;

        Result(org.apache.spark.sql.classic.Dataset found) {
            schema = found.schema();
            rows = found.queryExecution().executedPlan().executeCollect();
        }

        public StructType readSchema() {
            return schema;
        }

        public InternalRow[] rows() {
            return rows;
        }
    }
}
