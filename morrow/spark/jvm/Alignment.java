package morrow.spark.jvm;

import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayTransform;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Concat;
import org.apache.spark.sql.catalyst.expressions.CreateMap;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.LambdaFunction;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedLambdaVariable;
import org.apache.spark.sql.catalyst.expressions.RaiseError;
import org.apache.spark.sql.catalyst.expressions.TransformKeys;
import org.apache.spark.sql.catalyst.expressions.TransformValues;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.VariantType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ArrayBuffer;

/** Values converted to the types of their columns: text is cast, members are matched by position or name. */
final class Alignment {
    /** How members of a struct find their values: by position; by name; or by name, with null or the former value for missing members.
     *
     * OPEN is by name, too, but keeps the members of the value: Python adds missing ones to the table.
     */
    static final int POSITION = 0, NAME = 1, FILL = 2, KEEP = 3, OPEN = 4;
    private static final String INVALID = "CAST_INVALID_INPUT";
    private final SQLConf conf;
    private final int how;
    private final Seq row;
    private final boolean isChecked;

    /** row: the columns that identify the row in errors. isChecked: whether Spark itself compares the types afterwards. */
    Alignment(SQLConf conf, int how, Seq row, boolean isChecked) {
        this.conf = conf;
        this.how = how;
        this.row = row;
        this.isChecked = isChecked;
    }

    /** The value in the type of its column; unchanged if Spark can assign it, or has to report that it cannot. */
    Expression align(Expression value, DataType to, String column, Expression former) {
        return isAligned(value.dataType(), to) ? value : aligned(value, to, column, how == KEEP ? former : null);
    }

    private boolean isAligned(DataType from, DataType to) {
        if (from instanceof StructType && to instanceof StructType) {
            StructField[] given = ((StructType) from).fields();
            StructField[] wanted = how == OPEN ? common(((StructType) to).fields(), given) : ((StructType) to).fields();
            boolean isSame = how == OPEN || given.length == wanted.length;
            for (int i = 0; isSame && i < wanted.length; i++) {
                int at = place(given, wanted[i].name(), i);
                isSame = at >= 0 && isAligned(given[at].dataType(), wanted[i].dataType());
            }
            return isSame;
        }
        if (from instanceof ArrayType && to instanceof ArrayType) {
            return isAligned(((ArrayType) from).elementType(), ((ArrayType) to).elementType());
        }
        if (from instanceof MapType && to instanceof MapType) {
            return isAligned(((MapType) from).keyType(), ((MapType) to).keyType())
                && isAligned(((MapType) from).valueType(), ((MapType) to).valueType());
        }
        return isAssignable(from, to) || !Cast.canAnsiCast(from, to);
    }

    /** Whether Spark assigns such values itself, with an error that names the column for those that do not fit. */
    private boolean isAssignable(DataType from, DataType to) {
        boolean isAnsi = isChecked && conf.ansiEnabled() && conf.storeAssignmentPolicy().toString().equals("ANSI");
        return from.sameType(to) || (isAnsi && Cast.canANSIStoreAssign(from, to));
    }

    /** The place of the value of a member; -1 if there is none. */
    private int place(StructField[] given, String name, int at) {
        if (how == POSITION) {
            return at;
        }
        for (int i = 0; i < given.length; i++) {
            if (conf.caseSensitiveAnalysis() ? given[i].name().equals(name) : given[i].name().equalsIgnoreCase(name)) {
                return i;
            }
        }
        return -1;
    }

    /** The members of a value, in the types of the column if it has them. */
    private StructField[] common(StructField[] known, StructField[] given) {
        StructField[] all = new StructField[given.length];
        for (int i = 0; i < given.length; i++) {
            int at = place(known, given[i].name(), i);
            all[i] = at < 0 ? given[i] : new StructField(given[i].name(), known[at].dataType(), given[i].nullable(), given[i].metadata());
        }
        return all;
    }

    private Expression aligned(Expression value, DataType to, String path, Expression former) {
        DataType from = value.dataType();
        if (from instanceof StructType && to instanceof StructType) {
            return struct(value, (StructType) from, (StructType) to, path, former);
        }
        if (from instanceof ArrayType && to instanceof ArrayType) {
            NamedLambdaVariable each = variable("element", ((ArrayType) from).elementType(), ((ArrayType) from).containsNull());
            Expression made = align(each, ((ArrayType) to).elementType(), path + ".element", null);
            return new ArrayTransform(value, lambda(made, new Expression[] {each}));
        }
        if (from instanceof MapType && to instanceof MapType) {
            return map(value, (MapType) from, (MapType) to, path);
        }
        return isAssignable(from, to) || !Cast.canAnsiCast(from, to) ? value : cast(value, to, path);
    }

    private Expression struct(Expression value, StructType from, StructType to, String path, Expression former) {
        StructField[] given = from.fields();
        StructField[] wanted = how == OPEN ? common(to.fields(), given) : to.fields();
        if (how < FILL && given.length != wanted.length) {
            return value; // Spark names the members that are missing or unknown
        }
        Expression[] members = new Expression[2 * wanted.length];
        boolean isPartial = false;
        for (int i = 0; i < wanted.length; i++) {
            int at = place(given, wanted[i].name(), i);
            if (at < 0 && how < FILL) {
                return value;
            }
            scala.Option name = scala.Option.apply(wanted[i].name());
            Expression before = former == null ? null : new GetStructField(former, i, name);
            isPartial |= at < 0;
            members[2 * i] = text(wanted[i].name());
            members[2 * i + 1] = at >= 0
                ? align(new GetStructField(value, at, scala.Option.apply(given[at].name())), wanted[i].dataType(), path + "." + wanted[i].name(), before)
                : before != null ? before : Literal.create(null, wanted[i].dataType());
        }
        Expression made = new CreateNamedStruct(seq(members));
        if (!value.nullable()) {
            return made;
        }
        Expression isNull = new org.apache.spark.sql.catalyst.expressions.IsNull(value);
        Expression isLost = former != null && isPartial ? new And(isNull, new org.apache.spark.sql.catalyst.expressions.IsNull(former)) : isNull;
        return new If(isLost, Literal.create(null, made.dataType()), made);
    }

    private Expression map(Expression value, MapType from, MapType to, String path) {
        Expression made = value;
        if (!isAligned(from.keyType(), to.keyType())) {
            NamedLambdaVariable key = variable("key", from.keyType(), false);
            NamedLambdaVariable item = variable("value", from.valueType(), from.valueContainsNull());
            made = new TransformKeys(made, lambda(align(key, to.keyType(), path + ".key", null), new Expression[] {key, item}));
        }
        if (!isAligned(from.valueType(), to.valueType())) {
            NamedLambdaVariable key = variable("key", ((MapType) made.dataType()).keyType(), false);
            NamedLambdaVariable item = variable("value", from.valueType(), from.valueContainsNull());
            made = new TransformValues(made, lambda(align(item, to.valueType(), path + ".value", null), new Expression[] {key, item}));
        }
        return made;
    }

    /** A cast as in Spark's SQL. For a value that cannot be cast, its error names the column and the row. */
    private Expression cast(Expression value, DataType to, String path) {
        if (!conf.ansiEnabled()) {
            return cast(value, to, EvalMode.LEGACY());
        }
        DataType from = value.dataType();
        if (!value.deterministic() || from instanceof VariantType || !(from instanceof AtomicType) || !(to instanceof AtomicType)) {
            return cast(value, to, EvalMode.ANSI());
        }
        Expression made = cast(value, to, EvalMode.TRY());
        Expression[] where = {
            text("'"), cast(value, DataTypes.StringType, EvalMode.ANSI()), text("' of the column `" + path + "` in the row "),
            cast(new CreateNamedStruct(shown()), DataTypes.StringType, EvalMode.ANSI())};
        Expression[] about = {
            text("expression"), new Concat(seq(where)), text("sourceType"), text(quoted(from)),
            text("targetType"), text(quoted(to))};
        Expression error = new RaiseError(text(INVALID), new CreateMap(seq(about), false), to);
        return new If(new And(new org.apache.spark.sql.catalyst.expressions.IsNotNull(value), new org.apache.spark.sql.catalyst.expressions.IsNull(made)), error, made);
    }

    private Expression cast(Expression value, DataType to, scala.Enumeration.Value mode) {
        return new Cast(value, to, scala.Option.apply(conf.sessionLocalTimeZone()), mode);
    }

    private static String quoted(DataType type) {
        return "\"" + type.sql() + "\"";
    }

    /** The names and values of the row's simple columns. */
    private Seq shown() {
        ArrayBuffer all = new ArrayBuffer(8);
        scala.collection.Iterator columns = row.iterator();
        while (columns.hasNext()) {
            Attribute column = (Attribute) columns.next();
            if (column.dataType() instanceof AtomicType) {
                all.$plus$eq(text(column.name()));
                all.$plus$eq(column);
            }
        }
        return (Seq) all.toSeq();
    }

    private static NamedLambdaVariable variable(String name, DataType type, boolean isNullable) {
        return new NamedLambdaVariable(name, type, isNullable, NamedExpression.newExprId(), new AtomicReference());
    }

    private static Expression lambda(Expression body, Expression[] variables) {
        return new LambdaFunction(body, seq(variables), false);
    }

    private static Literal text(String text) {
        return Literal.create(text, DataTypes.StringType);
    }

    static Seq seq(Object[] all) {
        ArrayBuffer made = new ArrayBuffer(all.length);
        for (int i = 0; i < all.length; i++) {
            made.$plus$eq(all[i]);
        }
        return (Seq) made.toSeq();
    }

    /** The value under a column's name. */
    static Alias named(Expression value, String name) {
        return new Alias(value, name, NamedExpression.newExprId(), seq(new Object[0]), scala.Option.empty(), seq(new Object[0]));
    }
}
