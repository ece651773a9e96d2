r"""CSV data files: no header by default, ``\`` escapes, base64 for bytes, the null literal is empty text.

Lines are split as by Java's parser, which differs from other parsers. An escape at the end of a value is dropped, even
before a delimiter or the end of the line. Escapes at the beginning of a value are dropped too. A line of blanks is a
row of nulls. Lines with quotes are left to Arrow if all quotes enclose values, or are escaped or doubled within them.

In three cases Morrow refuses a file that Java reads. With ``csv.mode`` (``permissive``, ``dropmalformed``) Java drops
or blanks values that do not parse. Java also reads lines with too few or too many values, and lines with quotes
elsewhere. CSV files do not name their columns; `FileSource.columns` does.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.csv as arrow_csv

from morrow.engine.errors import Unsupported
from morrow.engine.format.types import DataField
from morrow.engine.names import col
from morrow.engine.options import Options
from morrow.engine.options.declared import files
from morrow.readers.files.formats.text import parse_values, read_lines
from morrow.readers.files.registry import FileReader
from morrow.readers.files.source import Chunk, FileSource

DISABLED = frozenset({"", "\0"})
BLANK = r"^[\t-\r\x1c-\x20\u{1680}\u{2000}-\u{2006}\u{2008}-\u{200a}\u{2028}\u{2029}\u{205f}\u{3000}]*$"
"""A pattern of text that Java treats as whitespace."""
MAX_SHOWN_CHARACTERS = 80
MEND = "mend the line, or set the options of the table to how its files are written"


def decode_csv(source: FileSource, fields: Sequence[DataField]) -> Iterator[Chunk]:
    """Yield chunks of about 16 MiB of text."""
    names = tuple(each.name for each in source.columns or fields)
    if missing := [each.name for each in fields if each.name not in names]:
        raise Unsupported(f"a file of the columns {', '.join(names)}, without {missing[0]!r},", where=source.path)
    given = source.given
    dialect = _Dialect.of(given, source.path, len(names))
    columns = [parse_values(col(each.name), each.type, source.path).alias(each.name) for each in fields]
    wanted = {names.index(each.name): each.name for each in fields}
    header = given.get(files.CSV_INCLUDE_HEADER)
    for chunk in read_lines(source, given.get(files.CSV_LINE_DELIMITER)):
        rows = chunk.slice(1) if header else chunk
        header = False
        yield Chunk(len(rows), dialect.cut(rows, wanted).select(columns))


@dataclass(frozen=True)
class _Dialect:
    """The rules for splitting lines into `width` values; `quote` and `escape` are empty if disabled."""

    where: str
    width: int
    delimiter: str
    quote: str
    escape: str
    null: str

    @classmethod
    def of(cls, given: Options, where: str, width: int) -> _Dialect:
        quote, escape = given.get(files.CSV_QUOTE_CHARACTER), given.get(files.CSV_ESCAPE_CHARACTER)
        return cls(
            where,
            width,
            given.get(files.CSV_FIELD_DELIMITER)[0],
            "" if quote in DISABLED else quote[0],
            "" if escape in DISABLED else escape[0],
            given.get(files.CSV_NULL_LITERAL),
        )

    def cut(self, text: pl.Series, wanted: dict[int, str]) -> pl.DataFrame:
        """Return the wanted values of each line as text; the null literal becomes null."""
        quoted = text.str.contains(self.quote, literal=True) if self.quote else pl.repeat(False, len(text), eager=True)
        if not quoted.any():
            return self._plain(text, wanted)
        at = pl.int_range(len(text), eager=True).alias("at")
        plain = self._plain(text.filter(~quoted), wanted).with_columns(at.filter(~quoted))
        others = self._quote(text.filter(quoted), wanted).with_columns(at.filter(quoted))
        return pl.concat([plain, others]).sort("at").drop("at")

    def _plain(self, text: pl.Series, wanted: dict[int, str]) -> pl.DataFrame:
        """Cut lines without quotes."""
        blank = text.str.contains(BLANK)
        values = text.str.split(self.delimiter)
        odd = (values.list.len() != self.width) & ~blank
        if odd.any():
            found, line = values.list.len().filter(odd)[0], text.filter(odd)[0]
            raise Unsupported(
                f"a line of {found} values, not {self.width}: {line[:MAX_SHOWN_CHARACTERS]!r}",
                where=self.where,
                hint=MEND,
            )
        if not wanted:
            return pl.DataFrame(height=len(text))
        escape = re.escape(self.escape)
        cut = pl.DataFrame({"values": values, "blank": blank}).select(
            pl.when(~col("blank")).then(col("values").list.get(number, null_on_oob=True)).alias(name)
            for number, name in wanted.items()
        )
        if self.escape and bool(text.str.contains(self.escape, literal=True).any()):
            cut = cut.select(pl.all().str.replace(f"^(?:{escape})+", "").str.replace_all(f"{escape}({escape}?)", "$1"))
        return cut.select(self._clear_nulls())

    def _quote(self, text: pl.Series, wanted: dict[int, str]) -> pl.DataFrame:
        """Cut lines with quotes."""
        odd = ~text.str.contains(self._well_formed())
        if odd.any():
            line = text.filter(odd)[0]
            raise Unsupported(
                f"a quote neither around a value nor escaped in it: {line[:MAX_SHOWN_CHARACTERS]!r}",
                where=self.where,
                hint=MEND,
            )
        names = [str(number) for number in range(self.width)]
        read = arrow_csv.read_csv(
            io.BytesIO("".join(f"{line}\n" for line in text).encode()),
            read_options=arrow_csv.ReadOptions(column_names=names),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=self.quote,
                escape_char=self.escape or False,
                double_quote=True,
                ignore_empty_lines=False,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[], strings_can_be_null=False
            ),
        )
        frame = pl.DataFrame(pl.from_arrow(read)).select(
            col(str(number)).alias(name) for number, name in wanted.items()
        )
        return frame.select(self._clear_nulls()) if wanted else pl.DataFrame(height=len(text))

    def _clear_nulls(self) -> pl.Expr:
        return pl.when(pl.all() != self.null).then(pl.all())

    def _well_formed(self) -> str:
        """Return a pattern of lines that Java and Arrow split in the same way."""
        delimiter, quote, escape = map(re.escape, (self.delimiter, self.quote, self.escape))
        escaped = f"|{escape}[^\r\n]" if escape else ""
        value = (
            f"(?:[^{delimiter}{quote}{escape}\r\n]*|{quote}(?:[^{quote}{escape}\r\n]{escaped}|{quote}{quote})*{quote})"
        )
        return f"^{value}(?:{delimiter}{value})*$"


READER = FileReader(decode=decode_csv)
