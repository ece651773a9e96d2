"""Functions of a catalog in Spark: created, dropped, described, listed and called.

A catalog keeps a function for Spark as the definition ``spark``, as Java's does: SQL, a Java class in files, or a Java
lambda. Spark itself checks SQL when a function is created. A call becomes one of a temporary function of the session,
whose name contains a hash of the definition, so that a changed function is another one. Lambdas are called by name.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from morrow.engine.catalog.protocol import (
    SQL,
    Definition,
    Function,
    has_functions,
    require_functions,
)
from morrow.engine.errors import (
    AlreadyExists,
    ColumnNotFound,
    DatabaseNotFound,
    InvalidArgument,
    TableNotFound,
    Unsupported,
)
from morrow.engine.format.blobs import BlobDescriptor, BlobView
from morrow.engine.format.types import DataField
from morrow.engine.plan.filter.sql_parsing import describe_problem
from morrow.engine.structs import replace
from morrow.spark.catalogs.descriptions import quote_text, to_sql_type
from morrow.spark.catalogs.questions import Place, Question, build_full_name
from morrow.spark.catalogs.syntax import SPARK_SYNTAX, resolve_name, split_name
from morrow.spark.catalogs.view_statements import DIALECT, using_database
from morrow.spark.expressions import quote_name
from morrow.spark.types import to_paimon_fields, to_spark_schema
from morrow.statements.sources import MAX_PT
from morrow.statements.statement import CreateFunction, DescribeFunction, DropFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE, LAMBDA = "file", "lambda"
SYSTEM = "sys"
"""The database of the functions that every catalog has."""
OPTION = "spark.sql-function."
"""Prefix of the options in which Java's Spark connector records details of an SQL function."""
SETTING, AROUND = "sqlConfig.", ("referredTemp",)
"""Prefixes of properties of functions in Spark: settings of the session that created it, temporary objects in it."""
DEFAULT = "default"
"""The key in the metadata of a parameter for its default value, as SQL."""
PROBE, MADE = "morrow_new_function", "morrow_function_"
QUERY = re.compile(r"\bSELECT\b|^[\s(]*TABLE\b", re.IGNORECASE)


def create_function(place: Place, name: str, statement: CreateFunction) -> None:
    """Create a function for Spark.

    Raises:
        AlreadyExists. Unsupported: a function of ``sys``, or a catalog without functions. Others: Spark's own errors.
    """
    _refuse_own(name, "create")
    require_functions(place.catalog._catalog)
    database, _, short = name.partition(".")
    if statement.if_not_exists and short in place.catalog.functions(database):
        return
    if not statement.replace and short in place.catalog.functions(database):
        raise AlreadyExists(f"there is a function {name} already; write CREATE OR REPLACE FUNCTION")
    made = _describe_class(statement, short) if statement.class_name else _parse_sql(place, name, statement)
    place.catalog.create_function(name, made, ignore_if_exists=statement.if_not_exists, replace=statement.replace)


def _refuse_own(name: str, verb: str) -> None:
    if name.startswith(f"{SYSTEM}."):
        raise Unsupported(f"Can't {verb} built-in function: {name}; this", hint="name another database")


def _describe_class(statement: CreateFunction, short: str) -> Function:
    files = [{"resourceType": kind.lower(), "uri": uri} for kind, uri in statement.files]
    named = {"language": "JAVA", "className": statement.class_name, "functionName": short}
    return Function((), (), {DIALECT: Definition(FILE, None, {"fileResources": files, **named})}, deterministic=True)


def _parse_sql(place: Place, name: str, statement: CreateFunction) -> Function:
    """Let Spark parse a function by creating it as a temporary function, which is dropped again; return it."""
    database, _, short = name.partition(".")
    spark, session = place.spark, _get_session_catalog(place.spark)
    probe = PROBE if session.lookupBuiltinOrTempFunction(short).isDefined() else short
    body = split_body(statement.body)
    with using_database(place, database):
        spark.sql(f"CREATE TEMPORARY FUNCTION {quote_name(probe)}{body[0]}{qualify_names(place, database, body[1])}")
    try:
        info = session.lookupBuiltinOrTempFunction(probe).get()
        parser = cast("Any", spark)._jsparkSession.sessionState().sqlParser()
        found = cast("Any", spark)._jvm.org.apache.spark.sql.catalyst.catalog.SQLFunction.fromExpressionInfo(
            info, parser
        )
    finally:
        spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {quote_name(probe)}")
    properties = _to_dict(found.properties())
    for key, value in properties.items():
        if key.startswith(AROUND) and (names := [each for each in json.loads(value) if MADE not in str(each)]):
            raise InvalidArgument(f"CREATE FUNCTION {name}: it names {names[0]}, which is temporary; leave it out")
    returns = (
        cast("Any", spark)._jvm.org.apache.spark.sql.types.StructType().add(short, found.getScalarFuncReturnType())
    )
    told = {
        f"{OPTION}is-query": _format_flag(found.exprText().isEmpty()),
        f"{OPTION}deterministic": _format_flag(found.deterministic().get()),
        f"{OPTION}contains-sql": _format_flag(found.containsSQL().get()),
    }
    return Function(
        _to_fields(found.inputParam().get().json()) if found.inputParam().isDefined() else (),
        _to_fields(returns.json()),
        {DIALECT: Definition(SQL, body[1].strip())},
        bool(found.deterministic().get()),
        found.comment().get() if found.comment().isDefined() else None,
        {**told, **{key: value for key, value in properties.items() if not key.startswith(AROUND)}},
    )


def _get_session_catalog(spark: SparkSession) -> Any:
    return cast("Any", spark)._jsparkSession.sessionState().catalog()


def _format_flag(value: object) -> str:
    return str(bool(value)).lower()


def _to_dict(properties: Any) -> dict[str, str]:
    found, all_ = {}, properties.iterator()
    while all_.hasNext():
        pair = all_.next()
        found[pair._1()] = pair._2()
    return found


def _to_fields(told: str) -> tuple[DataField, ...]:
    """Return parameters as columns, with their default values."""
    from pyspark.sql.types import StructType

    schema: StructType = StructType.fromJson(json.loads(told))
    defaults = [field.metadata.get(DEFAULT) for field in schema.fields]
    fields = to_paimon_fields(schema)
    numbered = enumerate(zip(fields, defaults, strict=True))
    return tuple(replace(field, id=number, default_value=default) for number, (field, default) in numbered)


def split_body(text: str) -> tuple[str, str]:
    """Split the text that follows the name of a function after the first RETURN outside of parentheses."""
    depth, at = 0, len(text)
    for token in SPARK_SYNTAX.tokenize(text):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.text.upper() == "RETURN" and token.token_type is not TokenType.STRING:
            at = token.end + 1
            break
    return text[:at], text[at:]


def qualify_names(place: Place, database: str, text: str) -> str:
    """Put the catalog and database before names of tables without one, and replace functions by temporary ones.

    Spark resolves names in a temporary function in the database that is current when it is called, and only functions
    of its own catalog when it looks for circles. An expression of unknown syntax stays as it is.

    Raises:
        InvalidArgument: functions call each other in a circle.
        Unsupported: a query of unknown syntax, which would read tables of the database that is current at each call.
    """
    try:
        tree, tokens = sqlglot.parse_one(text, dialect="spark"), SPARK_SYNTAX.tokenize(text)
    except SqlglotError as error:
        if QUERY.search(text):
            what = f"a function whose query does not parse{describe_problem(error)},"
            hint = "create a view of the query, and read it in the function"
            raise Unsupported(what, where=f"{place.name}.{database}", hint=hint) from error
        return text
    around = f"{quote_name(place.name)}.{quote_name(database)}."
    common = {each.alias_or_name.casefold() for each in tree.find_all(exp.CTE)}
    tables = (table for table in tree.find_all(exp.Table) if not table.db and isinstance(table.this, exp.Identifier))
    begins = [table.this.meta.get("start") for table in tables if table.name.casefold() not in common]
    put = {begin: (begin, around) for begin in begins if begin is not None}
    for at, token in enumerate(tokens[:-1]):
        if tokens[at + 1].token_type is not TokenType.L_PAREN:
            continue
        first = at
        while first > 1 and tokens[first - 1].token_type is TokenType.DOT:
            first -= 2
        temporary = _find_temporary(place, database, [each.text for each in tokens[first : at + 1 : 2]])
        if temporary is not None:
            put[tokens[first].start] = (token.end + 1, temporary)
    for begin, (end, new) in sorted(put.items(), reverse=True):
        text = text[:begin] + new + text[end:]
    return text


def _find_temporary(place: Place, database: str, parts: list[str]) -> str | None:
    """Return the temporary function of a called name; None if it is not a function of the catalog, or a lambda."""
    if len(parts) == 1 and _get_session_catalog(place.spark).lookupBuiltinOrTempFunction(parts[0]).isDefined():
        return None
    *catalog, database, short = parts if len(parts) > 1 else (database, *parts)
    if catalog not in ([], [place.name]):
        return None
    found = _load_function(place, {"database": database, "name": short}, None)
    return None if found is None else cast("str | None", found.get("temporary"))


def drop_function(place: Place, name: str, statement: DropFunction) -> None:
    """Drop a function."""
    _refuse_own(name, "drop")
    place.catalog.drop_function(name, ignore_if_not_exists=statement.if_exists)


def describe_function(place: Place, name: str, statement: DescribeFunction) -> DataFrame:
    """Return the rows of DESCRIBE FUNCTION, in Paimon's words."""
    found = place.catalog.function(name)
    definition = _get_definition(found, name)
    rows = {"Function": name}
    if definition.kind == FILE:
        rows["Class"] = str(definition.members.get("className"))
        if statement.extended:
            rows["File Resources"] = ", ".join(each["uri"] for each in definition.members.get("fileResources", ()))
        lines = [f"{key}: {value}" for key, value in rows.items()]
    else:
        parameters = [_format_parameter(each, extended=statement.extended) for each in found.parameters] or ["()"]
        rows |= {"Type": "SCALAR", "Input": parameters[0]}
        rows |= {" " * at: each for at, each in enumerate(parameters[1:], 1)}
        rows["Returns"] = found.returns[0].type.text() if found.returns else ""
        if statement.extended:
            rows |= {} if found.comment is None else {"Comment": found.comment}
            rows["Deterministic"] = _format_flag(found.deterministic)
            if (contains := found.options.get(f"{OPTION}contains-sql")) is not None:
                rows["Data Access"] = "CONTAINS SQL" if contains == "true" else "READS SQL DATA"
            rows["Body"] = definition.text or ""
        width = max(map(len, rows)) + 1
        lines = [f"{key + ':' if key.strip() else '':<{width}} {value}" for key, value in rows.items()]
    return place.spark.createDataFrame([(line,) for line in lines], "function_desc STRING NOT NULL")


def _format_parameter(field: DataField, *, extended: bool) -> str:
    text = f"{field.name} {field.type.text()}"
    if extended and field.default_value is not None:
        text += f" DEFAULT {field.default_value}"
    return text + (f" '{field.description}'" if extended and field.description is not None else "")


def _get_definition(function: Function, name: str) -> Definition:
    """Return the definition for Spark. Raises `Unsupported` if there is none."""
    found = function.definitions.get(DIALECT)
    if found is None or found.kind not in (SQL, FILE, LAMBDA):
        known = ", ".join(function.definitions) or "none"
        hint = f"its definitions are: {known}; CALL sys.alter_function adds one"
        raise Unsupported("a function without a definition for spark", where=name, hint=hint)
    return found


# Calls


def _list_functions(place: Place, question: Question, _rows: DataFrame | None) -> list[str]:
    if question["database"] == SYSTEM:
        return [MAX_PT, *BLOB_FUNCTIONS]
    catalog = place.catalog._catalog
    try:
        return require_functions(catalog).functions(question["database"]) if has_functions(catalog) else []
    except DatabaseNotFound:
        return []


def _load_function(place: Place, question: Question, _rows: DataFrame | None) -> dict[str, object] | None:
    """Return a lambda, or the expression or temporary function that replaces a call; None for a missing function."""
    if question["database"] == SYSTEM:
        return _load_own(place, question)
    if not has_functions(place.catalog._catalog):
        return None
    name = f"{question['database']}.{question['name']}"
    try:
        found = place.catalog.function(name)
    except (TableNotFound, DatabaseNotFound, InvalidArgument):
        return None
    definition = _get_definition(found, name)
    if definition.kind != LAMBDA:
        return {"temporary": _ensure_temporary(place, name, found, definition)}
    return {
        "name": name,
        "lambda": definition.text or "",
        "parameters": to_spark_schema(found.parameters).json(),
        "returns": to_spark_schema(found.returns).json(),
        "deterministic": found.deterministic,
    }


_MADE: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()
"""The temporary functions of a session."""
_state = threading.local()
"""`being_made`: the functions whose bodies Spark resolves in this thread. They must not call each other in a circle."""


def _ensure_temporary(place: Place, name: str, function: Function, definition: Definition) -> str:
    """Return the name of the session's temporary function with this definition; create it if it is missing."""
    key, database = f"{place.name}.{name}", name.partition(".")[0]
    being_made: list[str] = _state.__dict__.setdefault("being_made", [])
    if key in being_made:
        raise InvalidArgument(f"the function {name} calls itself")
    being_made.append(key)
    try:
        text = _format_body(place, database, function, definition)
        told = json.dumps([text, dict(function.options)], sort_keys=True)
        made = MADE + hashlib.sha256(told.encode()).hexdigest()[:24]
        if made not in _MADE.setdefault(place.spark, set()):
            with _with_settings(place.spark, function.options):  # names are qualified: the database stays
                place.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {made} {text}")
            _MADE[place.spark].add(made)
    finally:
        being_made.remove(key)
    return made


def _format_body(place: Place, database: str, function: Function, definition: Definition) -> str:
    if definition.kind == FILE:
        files = definition.members.get("fileResources") or ()
        using = ", ".join(f"{str(each['resourceType']).upper()} {quote_text(each['uri'])}" for each in files)
        return f"AS {quote_text(str(definition.members.get('className')))}{' USING ' + using if using else ''}"
    parameters = ", ".join(map(_format_declaration, function.parameters))
    certain = "" if function.deterministic else " NOT DETERMINISTIC"
    returns = to_sql_type(function.returns[0].type)
    body = qualify_names(place, database, definition.text or "")
    return f"({parameters}) RETURNS {returns}{certain} RETURN {body}"


def _format_declaration(field: DataField) -> str:
    default = "" if field.default_value is None else f" DEFAULT {field.default_value}"
    return f"{quote_name(field.name)} {to_sql_type(field.type)}{default}"


@contextmanager
def _with_settings(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Set the settings with which a function was created, which Spark captures, until the end of the block."""
    given = {key.removeprefix(SETTING): value for key, value in options.items() if key.startswith(SETTING)}
    before = {key: spark.conf.get(key, None) for key in given}
    try:
        for key, value in given.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value_before in before.items():
            if value_before is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value_before)


# Functions of ``sys`` on blobs: calls become expressions, which Spark takes in VALUES, too

_ARGUMENT = "morrow_argument.a{}"
"""The name of an argument in the expression of a call."""
_EMPTY = BlobDescriptor("").encode()
_START, _WHOLE_FILE = _EMPTY[: -2 * 8 - 4], _EMPTY[-2 * 8 :]
"""The bytes of a descriptor before the length of the path, and after the path."""


def _format_int(value: str, width: int) -> str:
    """Return SQL for the little-endian bytes of a number."""
    parts = ", ".join(f"shiftright({value}, {8 * at}) & 255" for at in range(width))
    return f"unhex(printf('{'%02X' * width}', {parts}))"


def _read_int(value: str, start: str, width: int) -> str:
    """Return SQL for the number in little-endian bytes of a value from a position, which counts from one."""
    parts = ", ".join(f"hex(substr({value}, {start} + {at}, 1))" for at in reversed(range(width)))
    return f"CAST(conv(concat({parts}), 16, -10) AS BIGINT)"


def _format_path_to_descriptor(path: str) -> str:
    path = f"CAST({path} AS STRING)"
    length = _format_int(f"octet_length({path})", 4)
    return f"concat(X'{_START.hex()}', {length}, encode({path}, 'utf-8'), X'{_WHOLE_FILE.hex()}')"


def _format_descriptor_to_string(given: str) -> str:
    start = (
        f"CASE WHEN substr({given}, 1, {len(_START)}) = X'{_START.hex()}' THEN {len(_START) + 1} "
        f"WHEN substr({given}, 1, 1) = X'01' THEN 2 WHEN {given} IS NOT NULL THEN CAST(raise_error("
        "'descriptor_to_string takes a descriptor of a blob, not other bytes; read the column with the option "
        "blob-as-descriptor') AS INT) END"
    )
    text = (
        f"concat('BlobDescriptor{{version=', hex(substr({given}, 1, 1)) + 0, ', uri=\\'', "
        f"decode(substr({given}, s + 4, n), 'utf-8'), '\\', offset=', {_read_int(given, 's + 4 + n', 8)}, "
        f"', length=', {_read_int(given, 's + 12 + n', 8)}, '}}')"
    )
    length = f"CAST({_read_int(given, 's', 4)} AS INT)"
    return f"transform(array({start}), s -> transform(array({length}), n -> {text})[0])[0]"


def _format_blob_view(place: Place, table_name: str | None, column: str | None) -> str:
    if table_name is None or column is None:
        example = "sys.blob_view('db.images', 'picture', _ROW_ID)"
        raise InvalidArgument(f"blob_view takes the names of a table and of a column as literals: {example}")
    catalog, parts = resolve_name(place.spark, split_name(table_name))
    if catalog != place.name:
        raise Unsupported(f"blob_view of a table of the catalog {catalog} in {place.name}", hint="name a table of it")
    table = place.table(build_full_name(parts[:-1], parts[-1]))
    field = table._newest.by_name.get(column)
    if field is None:
        raise ColumnNotFound(f"blob_view: {table.path} has no column {column!r}")
    start = BlobView(".".join(parts), field.id, 0).encode()[:-8]
    return f"concat(X'{start.hex()}', {_format_int(f'CAST({_ARGUMENT.format(2)} AS BIGINT)', 8)})"


BLOB_FUNCTIONS = {"path_to_descriptor": 1, "descriptor_to_string": 1, "blob_view": 3}
"""Functions of ``sys`` with the number of their arguments."""


def _load_own(place: Place, question: Question) -> dict[str, object] | None:
    """Return the expression that replaces a call of a function of ``sys``; None for other functions."""
    name, given = question["name"].lower(), question.get("literals") or []
    if name not in BLOB_FUNCTIONS:
        return None
    if len(given) != BLOB_FUNCTIONS[name]:
        raise InvalidArgument(f"sys.{name} takes {BLOB_FUNCTIONS[name]} arguments, not {len(given)}")
    if name == "blob_view":
        return {"expression": _format_blob_view(place, given[0], given[1])}
    make = _format_path_to_descriptor if name == "path_to_descriptor" else _format_descriptor_to_string
    return {"expression": make(_ARGUMENT.format(0))}


ANSWERS: Mapping[str, Any] = {"function": _load_function, "functions": _list_functions}
