package morrow.spark.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** Spark's descriptions of tables and changes as maps and lists for JSON. */
final class Questions {
    private static final String SETTING = "spark.paimon.";

    private Questions() {}

    static Map of(String verb) {
        Map question = new HashMap();
        question.put("verb", verb);
        return question;
    }

    static Map of(String verb, String key, Object value) {
        Map question = of(verb);
        question.put(key, value);
        return question;
    }

    static Map of(String verb, String key, Object value, String other, Object another) {
        Map question = of(verb, key, value);
        question.put(other, another);
        return question;
    }

    /** The options that the session sets for tables, without their prefix. */
    static Map settings() {
        Map found = new HashMap();
        scala.collection.Iterator all = SQLConf.get().getAllConfs().iterator();
        while (all.hasNext()) {
            scala.Tuple2 one = (scala.Tuple2) all.next();
            if (((String) one._1()).startsWith(SETTING)) {
                found.put(((String) one._1()).substring(SETTING.length()), one._2());
            }
        }
        return found;
    }

    /** The names of the columns that partition a table. */
    static List keys(Transform[] partitions) {
        List keys = new ArrayList();
        for (int i = 0; i < partitions.length; i++) {
            if (!partitions[i].name().equals("identity")) {
                throw Refused.of("Unsupported", "Unsupported partition transform: " + partitions[i].describe() + "; partition by columns");
            }
            keys.add(path(partitions[i].references()[0].fieldNames()));
        }
        return keys;
    }

    static Map creation(Map question, Column[] columns, Transform[] partitions, Map properties) {
        StructType schema = CatalogV2Util.v2ColumnsToStructType(columns);
        for (int i = 0; i < columns.length; i++) {
            if (columns[i].generationExpression() != null) {
                throw Refused.of("Unsupported", "the generated column " + columns[i].name() + " is not supported");
            }
        }
        question.put("schema", schema.json());
        question.put("partitions", keys(partitions));
        question.put("properties", new HashMap(properties));
        return question;
    }

    /** Changes of a database: the name and value of a property, null if it is removed. */
    static List changes(NamespaceChange[] changes) {
        List all = new ArrayList();
        for (int i = 0; i < changes.length; i++) {
            if (changes[i] instanceof NamespaceChange.SetProperty) {
                NamespaceChange.SetProperty set = (NamespaceChange.SetProperty) changes[i];
                all.add(Arrays.asList(new Object[] {set.property(), set.value()}));
            } else if (changes[i] instanceof NamespaceChange.RemoveProperty) {
                all.add(Arrays.asList(new Object[] {((NamespaceChange.RemoveProperty) changes[i]).property(), null}));
            } else {
                throw Refused.of("Unsupported", "ALTER DATABASE with " + changes[i].getClass().getSimpleName() + " is not supported");
            }
        }
        return all;
    }

    static List changes(TableChange[] changes) {
        List all = new ArrayList();
        for (int i = 0; i < changes.length; i++) {
            all.add(change(changes[i]));
        }
        return all;
    }

    private static Map change(TableChange change) {
        if (change instanceof TableChange.SetProperty) {
            TableChange.SetProperty set = (TableChange.SetProperty) change;
            return of("set option", "key", set.property(), "value", set.value());
        }
        if (change instanceof TableChange.RemoveProperty) {
            return of("unset option", "key", ((TableChange.RemoveProperty) change).property());
        }
        if (!(change instanceof TableChange.ColumnChange)) {
            throw Refused.of("Unsupported", "ALTER TABLE with " + change.getClass().getSimpleName() + " is not supported");
        }
        List path = path(((TableChange.ColumnChange) change).fieldNames());
        if (change instanceof TableChange.AddColumn) {
            return added((TableChange.AddColumn) change, path);
        }
        if (change instanceof TableChange.DeleteColumn) {
            return of("drop column", "path", path, "if exists", ((TableChange.DeleteColumn) change).ifExists());
        }
        if (change instanceof TableChange.RenameColumn) {
            return of("rename column", "path", path, "to", ((TableChange.RenameColumn) change).newName());
        }
        if (change instanceof TableChange.UpdateColumnType) {
            return of("set type", "path", path, "type", type(((TableChange.UpdateColumnType) change).newDataType()));
        }
        if (change instanceof TableChange.UpdateColumnNullability) {
            return of("set nullable", "path", path, "nullable", Boolean.valueOf(((TableChange.UpdateColumnNullability) change).nullable()));
        }
        if (change instanceof TableChange.UpdateColumnComment) {
            return of("set comment", "path", path, "comment", ((TableChange.UpdateColumnComment) change).newComment());
        }
        if (change instanceof TableChange.UpdateColumnDefaultValue) {
            return of("set default", "path", path, "default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
        }
        if (change instanceof TableChange.UpdateColumnPosition) {
            Map moved = of("move column", "path", path);
            place(((TableChange.UpdateColumnPosition) change).position(), moved);
            return moved;
        }
        throw Refused.of("Unsupported", "ALTER TABLE with " + change.getClass().getSimpleName() + " is not supported");
    }

    private static Map added(TableChange.AddColumn change, List path) {
        if (change.defaultValue() != null) {
            throw Refused.of("Unsupported", "Unsupported table change: Cannot add column " + path + " with default value; rows that are there would not get it: add the column, then ALTER COLUMN ... SET DEFAULT");
        }
        Map added = of("add column", "path", path, "type", type(change.dataType()));
        added.put("nullable", Boolean.valueOf(change.isNullable()));
        added.put("comment", change.comment());
        place(change.position(), added);
        return added;
    }

    private static void place(TableChange.ColumnPosition position, Map into) {
        if (position instanceof TableChange.After) {
            into.put("after", ((TableChange.After) position).column());
        } else if (position != null) {
            into.put("first", Boolean.TRUE);
        }
    }

    private static String type(DataType type) {
        return new StructType().add("type", type).json();
    }

    private static List path(String[] names) {
        return new ArrayList(Arrays.asList((Object[]) names));
    }
}
