"""``morrow read``, ``count`` and ``sql``: rows as a stream in bounded memory, and the SQL shell.

``morrow sql`` without a query runs statements one by one, from a terminal or a file. The shell adds its own commands,
history, and completion of names, keywords, columns and tags.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import typer

import morrow
from morrow.cli.arguments import Format
from morrow.cli.output import TABLE_ROWS, TABLES, open_output, write_rows
from morrow.cli.targets import has_catalog, open_catalog, open_scan, open_table
from morrow.cli.terminal import emit, show_progress
from morrow.engine.errors import InvalidArgument, MorrowError
from morrow.engine.plan.time_travel import TravelArguments
from morrow.engine.redaction import clean_lines, clean_text, suggest_name
from morrow.readers.expressions.sql import open_stream, to_morrow_error

if TYPE_CHECKING:
    import duckdb

BATCH_ROWS = 65_536
PLANS = (["part", "plan"], ["explain_key", "explain_value"])
"""The columns of EXPLAIN in Morrow and in DuckDB."""
COUNTED = {"COPY": "rows_copied", "INSERT": "rows_inserted", "UPDATE": "rows_updated", "DELETE": "rows_deleted"}
CREATED = "created in memory, until the command ends"


def read(
    path: str,
    at: TravelArguments,
    columns: Sequence[str] | None,
    where: str | None,
    limit: int | None,
    form: Format,
    output: Path | None,
) -> None:
    """Write the rows of a table, or of a system table such as ``PATH$audit_log``."""
    cap = TABLE_ROWS if form in TABLES and limit is None else None
    # Read one row more than is shown, to find out whether there are more.
    scan = open_scan(path, at, columns, where, limit if cap is None else cap + 1)
    with show_progress("planning"):
        scan.prepare()
    write_rows(scan.schema, scan.to_batches(BATCH_ROWS), form, output, cap)


def count(path: str, at: TravelArguments, where: str | None, form: Format, output: Path | None) -> None:
    """Write the number of rows of a table; in the format ``table`` only the number."""
    import pyarrow as pa

    with show_progress("counting"):
        found = open_scan(path, at, where=where).count()
    if form is Format.TABLE:
        with open_output(output) as out:
            out.write(f"{found}\n".encode())
        return
    batch = pa.record_batch({"count": pa.array([found], pa.int64())})
    write_rows(batch.schema, [batch], form, output)


def run_sql(
    query: str | None,
    warehouse: str | None,
    tables: Mapping[str, str],
    limit: int | None,
    form: Format,
    output: Path | None,
    yes: bool = False,
) -> None:
    """Write the result of SQL. `tables` become views by name, and ``paimon_scan`` is available.

    With a `warehouse`, or one given before the command, its tables and time travel are available, too; see
    `Catalog.sql`. Without a query, statements are read from standard input. The user must confirm statements that
    delete something, unless `yes`.
    """
    import duckdb

    import morrow

    by_name = warehouse is not None or has_catalog()
    # Without replacement scans, a misspelt table is an error and not a variable of this module.
    replacements = str(by_name).lower()
    with (
        closing(duckdb.connect(config={"python_enable_replacements": replacements})) as connection,
        _translate_errors(),
    ):
        connection.execute("SET GLOBAL TimeZone = 'UTC'")  # also for its cursors
        morrow.duckdb.install(connection)
        for name, path in tables.items():
            with show_progress(f"opening {name}"):
                open_table(path).scan().to_duckdb(connection).create_view(name)
        catalog = open_catalog(warehouse) if by_name else None

        def run(text: str) -> None:
            if catalog is not None:
                _ask(text, yes)
            with _translate_errors(), show_progress("running the query"):
                result = _run_duckdb(connection, text) if catalog is None else catalog.sql(text, connection=connection)
            if result is None:
                raise InvalidArgument("the query returns no rows; write a SELECT")
            with _translate_errors():
                if form is Format.TABLE and result.columns in PLANS:
                    _write_plan(result, output)
                    return
                cap = TABLE_ROWS if form in TABLES and limit is None else None
                _write_relation(result if limit is None else result.limit(limit), form, output, cap)

        if query is not None:
            run(query)
            return
        if output is not None:
            raise InvalidArgument("--output is for one query: give its text")

        run_shell(run, catalog, list(tables))


def _run_duckdb(connection: duckdb.DuckDBPyConnection, text: str) -> duckdb.DuckDBPyRelation | None:
    """Run DuckDB statements. Counts get the same column names as with a warehouse."""
    result = connection.sql(text)
    if result is None or result.columns != ["Count"]:
        return result
    kind = connection.extract_statements(text)[-1].type.name
    if kind == "CREATE":
        return connection.sql(f"SELECT '{CREATED}' AS done")
    return result.project(f'"Count" AS {COUNTED[kind]}') if kind in COUNTED else result


def _ask(text: str, yes: bool) -> None:
    """Ask before statements that delete something. Raises as `confirm`."""
    from morrow.cli.terminal import confirm
    from morrow.statements.parser import parse_statements

    for statement in parse_statements(text):
        if statement.loss is not None:
            confirm(statement.loss, yes=yes, dry_run=False)


def _write_plan(result: duckdb.DuckDBPyRelation, output: Path | None) -> None:
    """Write the parts of a plan as text, since lines of a plan do not fit into table cells."""
    text = "".join(f"{clean_text(part)}\n{clean_lines(plan)}\n" for part, plan in result.fetchall())
    with open_output(output) as out:
        emit(text, out)


def _write_relation(result: duckdb.DuckDBPyRelation, form: Format, output: Path | None, cap: int | None) -> None:
    shown = result if cap is None else result.limit(cap + 1)
    with closing(open_stream(shown, BATCH_ROWS)) as reader:
        write_rows(reader.schema, reader, form, output, cap)


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert DuckDB's errors to `MorrowError`. An error of ``paimon_scan`` keeps its own message."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise to_morrow_error(error) from error


PROMPT, MORE = "morrow> ", "   ...> "
GREETING = "A semicolon ends a statement; .help says more, Ctrl-D leaves."
SETTLING = frozenset(";'\"`$/")
"""Only lines with one of these can end a statement, a string or a comment."""


def run_shell(run: Callable[[str], None], catalog: morrow.Catalog | None, names: Sequence[str]) -> None:
    """Run the statements of standard input. A statement ends with a semicolon outside strings and comments.

    On a terminal, errors are printed and the next statement is read. Ctrl-C drops the current input, and Ctrl-D exits
    without running an incomplete statement. In a file or pipe, an error ends the command and names the line in which
    the statement begins. The last statement does not need a semicolon there.
    """
    talk = _Shell(run, catalog, sys.stdin.isatty())
    if talk.on_terminal:
        begin_editing(catalog, names, lambda: talk.text)
        typer.echo(GREETING, err=True)
    while talk.goes_on():
        pass


@dataclass
class _Shell:
    """The state of the shell: `text` was read but has not run. It begins in line `first` of the input."""

    run: Callable[[str], None]
    catalog: morrow.Catalog | None
    on_terminal: bool
    text: str = ""
    first: int = 1
    line: int = 0
    unsettled: bool = True
    """Whether `text` ends within a string or comment, or only contains comments."""

    def goes_on(self) -> bool:
        """Read and process one line; return whether to continue."""
        try:
            line = self._next_line()
        except KeyboardInterrupt:
            typer.echo(err=True)
            self.text = ""
            return True
        except EOFError:
            if self.on_terminal:
                typer.echo(err=True)
            else:
                self._run_all(_split_rest(self.text))
            return False
        except UnicodeDecodeError as error:
            raise InvalidArgument(
                f"standard input, after line {self.line}: it is not UTF-8 ({error.reason})"
            ) from error
        self.line += 1
        if not self.text:
            self.first, self.unsettled = self.line, True
            if is_leaving(line):
                return False
            line = self._without_words(line)
        self.text = f"{self.text}{line}\n" if self.text or line.strip() else ""
        if self.text and (self.unsettled or not SETTLING.isdisjoint(line)):
            self._settle()
        return True

    def _next_line(self) -> str:
        prompt = (MORE if self.text else PROMPT) if self.on_terminal else ""
        if prompt and not sys.stdout.isatty():  # Python would write it to the results
            typer.echo(prompt, nl=False, err=True)
            prompt = ""
        return input(prompt)

    def _without_words(self, line: str) -> str:
        """Return the line, or the statement of a shell command."""
        try:
            return translate_line(line, self.catalog)
        except MorrowError as error:
            self._tell(error)
            return ""

    def _settle(self) -> None:
        """Run the statements of `text` if it ends with a semicolon. Drop it if it only contains comments."""
        from morrow.statements.tokens import read_tokens, split

        # An open string or comment contains the mark: a string raises, a comment drops it.
        mark = f"{self.text};"
        try:
            tokens = read_tokens(mark)
        except InvalidArgument:
            tokens = []
        if not tokens or tokens[-1].start != len(mark) - 1:
            self.unsettled = True
            return
        self.unsettled = False
        if len(tokens) == 1 or tokens[-2].text == ";":
            text, self.text = self.text, ""
            self._run_all([words.text for words in split(text)])

    def _run_all(self, statements: Sequence[str]) -> None:
        for text in statements:
            try:
                self.run(text)
            except typer.Exit:  # the answer was no
                if not self.on_terminal:
                    raise
                return
            except KeyboardInterrupt:
                typer.echo("interrupted", err=True)
                if not self.on_terminal:
                    raise
                return
            except MorrowError as error:
                self._tell(error)
                return

    def _tell(self, error: MorrowError) -> None:
        """Print an error on a terminal. Otherwise raise `typer.Exit`, since later statements may depend on it."""
        where = "" if self.on_terminal or self.first == self.line == 1 else f"the statement of line {self.first}: "
        typer.echo(clean_text(f"morrow: {where}{error}"), err=True)
        if not self.on_terminal:
            raise typer.Exit(1) from error


def _split_rest(text: str) -> Sequence[str]:
    """Split the rest of the input into statements, without comments. Text that cannot be split is one statement."""
    from morrow.statements.tokens import split

    try:
        return [words.text for words in split(text)]
    except InvalidArgument:
        return [text]


LEAVING = frozenset({"exit", "quit", ".exit", ".quit", "\\q"})
"""Words that exit the shell, like Ctrl-D."""
ALSO = {
    "help": ".help",
    "?": ".help",
    "\\?": ".help",
    "\\h": ".help",
    "\\l": ".databases",
    "\\dt": ".tables",
    "\\d": ".schema",
}
"""Commands of other shells -> the equivalent shell command."""


@dataclass(frozen=True)
class ShellCommand:
    """A shell command: its word, its argument (empty: none), its text in ``.help``, and its SQL statement."""

    takes: str
    says: str
    statement: Callable[[str, morrow.Catalog | None], str]


def is_leaving(line: str) -> bool:
    """Return whether a line exits the shell."""
    return line.strip().rstrip(";").lower() in LEAVING


def translate_line(line: str, catalog: morrow.Catalog | None) -> str:
    """Return the SQL statement of a shell command, or the line itself if it is not a shell command.

    Raises `InvalidArgument`: an unknown command with a dot or backslash, or a missing argument.
    """
    name, _, argument = line.strip().rstrip("; ").partition(" ")
    name, argument = ALSO.get(name.lower(), name.lower()), argument.strip()
    if not name.startswith((".", "\\")):
        return line
    word = SHELL_COMMANDS.get(name)
    if word is None:
        raise InvalidArgument(
            f"there is no {name}; {suggest_name(name, SHELL_COMMANDS)}.help lists the commands that are not SQL"
        )
    if word.takes.startswith("[") or bool(word.takes) == bool(argument):
        return word.statement(argument, catalog)
    raise InvalidArgument(f"{name} takes {word.takes or 'nothing'}: write {name} {word.takes}".rstrip())


def _print_help(_: str, __: morrow.Catalog | None) -> str:
    lines = [(f"{name} {word.takes}", word.says) for name, word in SHELL_COMMANDS.items()]
    width = max(len(call) for call, _ in lines)
    typer.echo("A statement ends with a semicolon and may take many lines; SQL is DuckDB's, with Paimon's statements.")
    typer.echo("Tab completes, the arrows bring back what was typed, Ctrl-C drops the statement.")
    typer.echo("\n".join(f"  {call:{width}}  {says}" for call, says in lines))
    return ""


def _print_tables(database: str, catalog: morrow.Catalog | None) -> str:
    if catalog is None:
        return "SHOW TABLES;"
    found = [f"{each}.{name}" for each in _list_databases(database, catalog) for name in catalog.tables(each)]
    typer.echo("\n".join(map(clean_text, found)) or "there are no tables")
    return ""


def _list_databases(database: str, catalog: morrow.Catalog) -> list[str]:
    return [database] if database else catalog.databases()


SHELL_COMMANDS = {
    ".help": ShellCommand("", "Show this.", _print_help),
    ".databases": ShellCommand("", "SHOW DATABASES", lambda _, __: "SHOW DATABASES;"),
    ".tables": ShellCommand("[DATABASE]", "All tables, as db.table.", _print_tables),
    ".schema": ShellCommand("TABLE", "DESCRIBE TABLE", lambda table, _: f"DESCRIBE {table};"),
    ".tags": ShellCommand("TABLE", "SHOW TAGS TABLE", lambda table, _: f"SHOW TAGS {table};"),
    ".snapshots": ShellCommand("TABLE", "SHOW SNAPSHOTS TABLE", lambda table, _: f"SHOW SNAPSHOTS {table};"),
    ".exit": ShellCommand("", "Leave; so do exit, quit, \\q and Ctrl-D.", lambda _, __: ""),
}

MAX_HISTORY_LINES = 1_000
HISTORY_MODE = 0o600
"""File mode of the history, since statements may contain private data."""
STATEMENTS = (
    *("SELECT", "INSERT INTO", "UPDATE", "DELETE FROM", "MERGE INTO", "EXPLAIN", "DESCRIBE", "WITH", "COPY", "CALL"),
    *("CREATE TABLE", "CREATE DATABASE", "ALTER TABLE", "DROP TABLE", "DROP DATABASE", "USE"),
    *("SHOW DATABASES", "SHOW TABLES IN", "SHOW TAGS", "SHOW BRANCHES", "SHOW SNAPSHOTS", "SHOW PARTITIONS"),
)
CLAUSES = (
    *("FROM", "WHERE", "GROUP BY", "ORDER BY", "HAVING", "LIMIT", "JOIN", "LEFT JOIN", "USING", "UNION ALL"),
    *("VERSION AS OF", "TIMESTAMP AS OF", "VALUES", "SET", "PRIMARY KEY", "PARTITIONED BY", "TBLPROPERTIES"),
    *("DISTINCT", "BETWEEN", "AND", "NOT", "NULL", "LIKE", "CASE WHEN", "count(", "sum(", "min(", "max(", "avg("),
)
DELIMITERS = " \t\n,()=;<>"
PLAIN = r"[A-Za-z_][A-Za-z0-9_]*"
NAME = rf'(?:{PLAIN}|"(?:[^"]|"")+")'


def begin_editing(catalog: morrow.Catalog | None, names: Sequence[str], before: Callable[[], str]) -> None:
    """Set up history and completion if Python has readline. `before` returns earlier lines of the statement."""
    try:
        import readline
    except ImportError:
        return
    _load_history(readline)
    completer = Completer(catalog, names)
    found: list[str] = []

    def complete(word: str, number: int) -> str | None:
        if number == 0:
            found[:] = completer.offers(word, f"{before()}{readline.get_line_buffer()}")
        return found[number] if number < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(DELIMITERS)
    by_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if by_editline else "tab: complete")


class Completer:
    """A completer of words in statements. It offers nothing if the catalog raises an error."""

    def __init__(self, catalog: morrow.Catalog | None, names: Sequence[str] = ()) -> None:
        self._catalog = catalog
        self._names = list(names)

    def offers(self, word: str, statement: str) -> list[str]:
        """Return completions of `word`, the word before the cursor, in this statement, best first."""
        with suppress(MorrowError, OSError):
            known = self._offer(word, statement)
            return [*dict.fromkeys(each for each in known if each.lower().startswith(word.lower()))]
        return []

    def _offer(self, word: str, statement: str) -> Iterable[str]:
        if word.startswith("'"):
            return [f"'{tag}'" for table in self._tables_of(statement) for tag in table.tags.names]
        if word.startswith("."):
            return SHELL_COMMANDS
        alias, dot, _ = word.rpartition(".")
        columns = [name for table in self._tables_of(statement) for name in table.schema.names]
        found = [*(f"{alias}{dot}{_quote_name(name)}" for name in columns), *self._names, *self._table_names(word)]
        return found if dot else [*found, *(_match_case(words, word) for words in (*STATEMENTS, *CLAUSES))]

    def _table_names(self, word: str) -> Iterable[str]:
        """Yield the databases, and the tables of the database that the word names."""
        if self._catalog is None:
            return
        for database in self._catalog.databases():
            prefix = f"{_quote_name(database)}."
            yield prefix
            if word.startswith(prefix):
                yield from (f"{prefix}{_quote_name(name)}" for name in self._catalog.tables(database))

    def _tables_of(self, statement: str) -> Iterable[morrow.Table]:
        """Yield the tables that a statement names by qualified names."""
        if self._catalog is None:
            return
        for database, name in dict.fromkeys(re.findall(rf"({NAME})\.({NAME})", statement)):
            with suppress(MorrowError, OSError):  # a column of an alias, or an incomplete name
                yield self._catalog.table(f"{_unquote_name(database)}.{_unquote_name(name)}")


def _quote_name(name: str) -> str:
    return name if re.fullmatch(PLAIN, name) else '"{}"'.format(name.replace('"', '""'))


def _unquote_name(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _match_case(words: str, word: str) -> str:
    """Return SQL words in lower case if `word` begins with a lower-case letter."""
    return words.lower() if word[:1].islower() else words


def _load_history(readline: ModuleType) -> None:
    """Read the history, and append to it on exit, since other shells may append concurrently."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    history = state / "morrow" / "history"
    with suppress(OSError):
        history.parent.mkdir(parents=True, exist_ok=True)
        history.touch(HISTORY_MODE)
        readline.read_history_file(history)
    readline.set_history_length(MAX_HISTORY_LINES)
    known = readline.get_current_history_length()
    atexit.register(_append_history, readline, history, known)


def _append_history(readline: ModuleType, history: Path, known: int) -> None:
    with suppress(OSError):
        readline.append_history_file(max(0, readline.get_current_history_length() - known), history)
