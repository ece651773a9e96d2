"""The bytes of a data file for its reader, also fetched ahead from a remote store.

Parquet is scanned by Polars itself. The other formats have a decoder, a function from columns to a stream of chunks.
`stream_decoder` turns a decoder into a LazyFrame that reads only the columns and rows that the query needs. Several
files are decoded at once, and their chunks are yielded in order; few chunks are held.

A scan requests a file's footer, then its columns, for a few files at a time, and waits for each request. If all of a
file is wanted and the file is not large, it is requested whole by its size, many files at once.
"""

from __future__ import annotations

import atexit
import io
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain
from queue import Full, Queue
from typing import Any, BinaryIO, Generic, TypeVar
from weakref import WeakSet

import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import (
    NOT_UTF8,
    OTHER_WRITER,
    CorruptFile,
    FileMissing,
    MorrowError,
    StorageError,
    Unsupported,
)
from morrow.engine.format.file_formats import TIMESTAMPS
from morrow.engine.format.types import ArrayType, DataField, DataType, MapType, MultisetType, RowType, VectorType
from morrow.engine.io.store import FileStore, to_system_error
from morrow.engine.library_versions import find_source_error, register_source
from morrow.engine.names import col, cols
from morrow.engine.options import Options
from morrow.engine.plan.scan_plan import DataFile
from morrow.engine.polars_threads import check_process, is_in_source
from morrow.engine.redaction import redact_error
from morrow.readers.casts.dtypes import to_polars_dtype


class FileSource(msgspec.Struct, frozen=True):
    """One data file: its location and its metadata.

    `path` is absolute within `store`. `size` in bytes (0 = unknown) and `row_count` (-1 = unknown) are for checks.
    `options` are the table options that a format needs (``csv.field-delimiter``). `columns` has all columns
    of the file in their order, for formats that do not store their names (CSV, row).
    """

    store: FileStore
    path: str
    size: int
    row_count: int
    format: str
    options: Mapping[str, str] = msgspec.field(default_factory=dict)
    columns: tuple[DataField, ...] = ()

    @property
    def given(self) -> Options:
        """The options by declaration."""
        return Options(self.options, self.path)


class Chunk(msgspec.Struct, frozen=True):
    """Decoded columns of `rows` consecutive rows; the frame may lack columns."""

    rows: int
    frame: pl.DataFrame


Decoder = Callable[[FileSource, Sequence[DataField]], Iterator[Chunk]]
"""Reads the given columns of a whole file, in file order, in chunks of bounded size."""


@contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Map errors of Polars and Arrow for bad data files to Morrow's errors; wrap it around every collect.

    `where` names the file, or the table if a frame reads several files.

    Raises `CorruptFile`, `Unsupported`, `FileMissing`, `StorageError`.
    """
    check_process()
    try:
        yield
    except MorrowError as error:
        raise _own(error) from error.__cause__
    except FileNotFoundError as error:
        raise FileMissing(error.filename or where) from error
    except FAILURES as error:
        raise find_source_error(error) or explain_error(error, where) from error


def explain_error(error: BaseException, where: str) -> MorrowError:
    """Explain an error of Polars or Arrow about a data file.

    Errors of the operating system do not mean damage, even if a library re-raises them.
    """
    of_system = to_system_error(redact_error(error), where)
    if of_system is not None:
        return of_system
    if isinstance(error, OSError):
        return _explain_storage_error(error, where)
    if ZONE_FILES in str(error):
        hint = "install the time zone database and let TZDIR name its folder"
        return Unsupported(f"ORC with this machine's time zones ({get_first_line(error)})", where=where, hint=hint)
    for sound in SOUND:
        if (feature := sound.feature(error)) is not None:
            return Unsupported(feature, where=where, hint=sound.hint)
    return CorruptFile(where, get_first_line(error))


def _own(error: MorrowError) -> MorrowError:
    """Return the error without the expression that Polars appends to messages of errors raised within one."""
    message = str(error.args[0]) if error.args else ""
    if IN_EXPRESSION not in message:
        return error
    told = type(error).__new__(type(error))
    told.__dict__.update(error.__dict__)
    told.args = (message.partition(IN_EXPRESSION)[0].rstrip(), *error.args[1:])
    return told


CORRUPTION: tuple[type[BaseException], ...] = (
    pl.exceptions.ComputeError,
    pl.exceptions.SchemaError,
    pl.exceptions.InvalidOperationError,
    pl.exceptions.ColumnNotFoundError,
    pl.exceptions.StructFieldNotFoundError,
    pl.exceptions.OutOfBoundsError,
    pl.exceptions.ShapeError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    UnicodeDecodeError,
)
"""Errors of Polars and Arrow for damaged bytes."""
OTHER_READER = f"{OTHER_WRITER}, and write it with the types of the table"
OTHER_TYPE = "a file whose types are not the table's ({0!r} is {1}, not {2})"


class _Sound(msgspec.Struct, frozen=True):
    """Errors of Polars and Arrow for undamaged files, recognized by words of their messages or by their classes.

    `told` is the message, with groups of the words as ``{0}``; None uses the message of the library.
    """

    words: str
    hint: str
    told: str | None = None
    what: str = ""
    classes: tuple[type[BaseException], ...] = ()

    def feature(self, error: BaseException) -> str | None:
        """Return what is not supported; None for another error."""
        match = re.search(self.words, text := get_first_line(error), re.IGNORECASE)
        if match is not None and self.told is not None:
            return self.told.format(*match.groups())
        return f"{self.what} ({text})" if match is not None or isinstance(error, self.classes) else None


_OTHER = "data type mismatch for column (.+?): incoming: "
SOUND = (
    _Sound("encrypt", OTHER_WRITER, "an encrypted file"),
    _Sound("invalid utf-?8", NOT_UTF8, "text that is not UTF-8", "text that is not UTF-8", (UnicodeDecodeError,)),
    _Sound(_OTHER + r"Struct\(.*'typed_value'", OTHER_WRITER, "a shredded VARIANT in the column {0!r}"),
    _Sound(_OTHER + "(.+?) != target: (.+?)(?:, (?:encountered|hint).*)?$", OTHER_READER, OTHER_TYPE),
    _Sound("(?:did not|unable to) find column (\\S+?)[,;]?$", OTHER_READER, "a file without the column {0!r}"),
    _Sound(
        "invalid `base64`",
        OTHER_READER,
        what="a file whose types are not the table's",
        classes=(
            pl.exceptions.SchemaError,
            pl.exceptions.StructFieldNotFoundError,
            pl.exceptions.InvalidOperationError,
        ),
    ),
    _Sound(
        "not (?:yet |currently )?(?:supported|implemented)|unsupported",
        OTHER_WRITER,
        what="something in the file",
        classes=(pa.ArrowNotImplementedError,),
    ),
)
IN_EXPRESSION = "This error occurred in the following expression"
FAILURES: tuple[type[BaseException], ...] = (OSError, *CORRUPTION)
ZONE_FILES = "Time zone file"
POLARS_ADVICE = ", consider passing"
OBJECT_STORE_WORDS = ("object-store", "Generic ", "HTTP", "request")


def _explain_storage_error(error: OSError, where: str) -> CorruptFile | StorageError:
    """Return the error for an OSError, which is caused by the storage or by damaged bytes.

    Decoders raise OSError too, but without an error number: then the bytes are damaged.
    """
    text = get_first_line(error)
    if error.errno is None and not any(word in text for word in OBJECT_STORE_WORDS):
        return CorruptFile(where, text)
    return StorageError(f"{where}: {text}; check the path and its permissions")


def get_first_line(error: BaseException) -> str:
    """Return the message without secrets, and without the plan and the advice that Polars appends to it."""
    lines = str(redact_error(error)).strip().splitlines()
    return lines[0].partition(POLARS_ADVICE)[0] if lines else type(error).__name__


def stream_decoder(
    decode: Decoder, sources: Sequence[FileSource], fields: Sequence[DataField], position: str | None
) -> pl.LazyFrame:
    """Return a lazy frame over a decoder, which reads only the columns needed and stops at the last row needed.

    Raises (when collected):
        CorruptFile: the decoder failed, or a file's row count differs from its metadata.
    """
    schema = {each.name: to_polars_dtype(each.type) for each in fields}
    if position is not None:
        schema[position] = pl.UInt64()

    def generate(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        names = list(schema) if with_columns is None else with_columns
        wanted = [each for each in fields if each.name in names]
        numbered = position if position in names else None
        starts = accumulate((max(source.row_count, 0) for source in sources), initial=0)
        decoders = [partial(_decode_frames, decode, *each, wanted, schema, numbered) for each in zip(sources, starts)]
        # A read of a few rows should not open the next files.
        ahead = n_rows is None and not is_in_source()
        frames = read_ahead(decoders) if ahead else chain.from_iterable(each() for each in decoders)
        left = n_rows
        for frame in frames:
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            frame = frame.select(cols(names))
            yield frame if predicate is None else frame.filter(predicate)
            if left == 0:
                return

    paths = ", ".join(source.path for source in sources)
    return register_source(generate, schema, f"{sources[0].format} {paths}")


def _decode_frames(
    decode: Decoder,
    source: FileSource,
    start: int,
    wanted: Sequence[DataField],
    schema: Mapping[str, pl.DataType],
    position: str | None,
) -> Iterator[pl.DataFrame]:
    """Yield the chunks of one file, whose first row has the position `start`."""
    rows = 0
    with translate_errors(source.path):
        for chunk in decode(source, wanted):
            frame = chunk.frame.with_columns(build_casts(chunk.frame, schema))
            if position is not None:
                first = start + rows
                numbers = pl.int_range(first, first + chunk.rows, dtype=pl.UInt64, eager=True).alias(position)
                frame = numbers.to_frame() if not wanted else frame.with_columns(numbers)
            yield frame if frame.width else pl.DataFrame(height=chunk.rows)
            rows += chunk.rows
    check_rows(source, rows)


def list_member_types(type_: DataType) -> tuple[DataType, ...]:
    """Return types of the members of a nested type; none for an atomic one."""
    if isinstance(type_, RowType):
        return tuple(member.type for member in type_.fields)
    if isinstance(type_, MapType):
        return (type_.key, type_.value)
    return (type_.element,) if isinstance(type_, (ArrayType, VectorType, MultisetType)) else ()


def has_timestamps(type_: DataType) -> bool:
    """Return whether the type is, or contains at any depth, a timestamp."""
    return isinstance(type_, TIMESTAMPS) or any(map(has_timestamps, list_member_types(type_)))


def check_rows(source: FileSource, rows: int) -> None:
    """Raise `CorruptFile` if metadata gives another row count."""
    if source.row_count >= 0 and rows != source.row_count:
        raise CorruptFile(source.path, f"has {rows} rows where metadata says {source.row_count}")


def build_casts(frame: pl.DataFrame, schema: Mapping[str, pl.DataType]) -> list[pl.Expr]:
    """Return casts for the columns of `frame` that do not have the dtype of `schema` yet."""
    return [col(name).cast(schema[name]) for name, dtype in frame.schema.items() if dtype != schema[name]]


T = TypeVar("T")

WORKERS = 2
"""Number of files decoded at once."""

MAX_QUEUED_CHUNKS = 2
"""Maximum number of queued chunks per file."""

PATIENCE_SECONDS = 0.02
"""Time that a decoder waits for room in the queue before it checks whether its chunks are still wanted."""

EXIT_SECONDS = 10.0
"""Time that the interpreter waits at exit for a decoder to finish its chunk."""


class _Lane(Generic[T]):
    """The chunks of one file on their way from its decoder to the consumer."""

    def __init__(self, decode: Callable[[], Iterator[T]], stopped: threading.Event) -> None:
        self._decode = decode
        self._stopped = stopped
        self._waiting: Queue[T | Future[None]] = Queue(MAX_QUEUED_CHUNKS)

    def fill(self) -> None:
        """Queue the chunks, followed by the decoder's result or error."""
        end: Future[None] = Future()
        try:
            for chunk in self._decode():
                if not self._put(chunk):
                    return
            end.set_result(None)
        except BaseException as error:  # noqa: BLE001 - the consumer raises it
            end.set_exception(error)
        self._put(end)

    def _put(self, what: T | Future[None]) -> bool:
        """Wait for room in the queue; return False if no more chunks are wanted."""
        while not self._stopped.is_set():
            try:
                self._waiting.put(what, timeout=PATIENCE_SECONDS)
            except Full:
                continue
            return True
        return False

    def drain(self) -> Iterator[T]:
        """Yield the chunks; raise the decoder's error."""
        while not isinstance(chunk := self._waiting.get(), Future):
            yield chunk
        chunk.result()


class _Worker(threading.Thread):
    """A thread that fills one lane after the other.

    It is a daemon: otherwise a program that ends with a partly read stream would wait forever.
    """

    def __init__(self, lanes: deque[_Lane[Any]], stopped: threading.Event) -> None:
        super().__init__(name="morrow-read-ahead", daemon=True)
        self._lanes = lanes
        self.stopped = stopped

    def run(self) -> None:
        while not self.stopped.is_set():
            try:
                lane = self._lanes.popleft()
            except IndexError:
                return
            lane.fill()


_workers: WeakSet[_Worker] = WeakSet()


@atexit.register
def _stop() -> None:
    """End all workers before the interpreter shuts down."""
    running = list(_workers)
    for worker in running:
        worker.stopped.set()
    for worker in running:
        worker.join(EXIT_SECONDS)


def read_ahead(decoders: Sequence[Callable[[], Iterator[T]]]) -> Iterator[T]:
    """Yield the chunks of all decoders, one decoder after the other, while the next decoders work ahead.

    Raises: the error of a decoder, when its turn comes.
    """
    stopped = threading.Event()
    lanes = [_Lane(decode, stopped) for decode in decoders]
    waiting = deque(lanes)
    try:
        for _ in range(min(WORKERS, len(lanes))):
            worker = _Worker(waiting, stopped)
            _workers.add(worker)
            worker.start()
        for lane in lanes:
            yield from lane.drain()
    finally:
        # The workers are not waited for: an abandoned generator may be collected in one of them.
        stopped.set()


MAX_REQUESTS = 32
"""Maximum number of concurrent requests."""
REQUEST_BYTES = 8 << 20
"""Maximum bytes of one request: a larger file takes several requests at once, since one connection is slower."""
MAX_AHEAD_BYTES = 128 << 20
"""Approximate maximum of bytes that are requested or in memory but not read yet."""


class FetchedStore:
    """A store whose files are fetched whole, each requested in its turn; everything else is delegated to `inner`.

    Polars receives the bytes instead of URLs.
    """

    has_urls = False
    is_local = False

    def __init__(self, inner: FileStore, pool: ThreadPoolExecutor) -> None:
        self.inner = inner
        self._pool = pool
        self._turn = threading.Lock()
        self._waiting: dict[str, DataFile] = {}
        self._asked: dict[str, tuple[DataFile, list[Future[bytes]]]] = {}
        self._held = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy before there is a store
            raise AttributeError(name)
        return getattr(self.inner, name)

    def expect(self, files: Iterable[DataFile]) -> None:
        """Queue files to fetch, in this order, after the files that are already queued."""
        with self._turn:
            self._waiting.update((file.path, file) for file in files if file.path not in self._asked)
            self._ask()

    def drop(self, files: Iterable[DataFile]) -> None:
        """Forget the bytes of files that were read, to make room for other files."""
        with self._turn:
            for file in files:
                if self._asked.pop(file.path, None) is not None:
                    self._held -= file.size
            self._ask()

    def read(self, path: str) -> bytes:
        """Return the whole file.

        Raises `CorruptFile`: its length differs from the metadata. `FileMissing`, `StorageError`: as `FileStore.read`.
        """
        with self._turn:
            if path in self._waiting:  # it is read before its turn
                self._ask_for(self._waiting.pop(path))
            asked = self._asked.get(path)
        if asked is None:
            return self.inner.read(path)
        file, parts = asked
        data = parts[0].result() if len(parts) == 1 else b"".join(part.result() for part in parts)
        if len(data) != file.size:
            raise CorruptFile(path, f"{len(data)} bytes long where its metadata says {file.size}")
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return (
            self.read(path)[start : start + length] if self._has(path) else self.inner.read_range(path, start, length)
        )

    def open(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path)) if self._has(path) else self.inner.open(path)

    def _has(self, path: str) -> bool:
        with self._turn:
            return path in self._asked or path in self._waiting

    def _ask(self) -> None:
        while self._waiting and self._held < MAX_AHEAD_BYTES:
            self._ask_for(self._waiting.pop(next(iter(self._waiting))))

    def _ask_for(self, file: DataFile) -> None:
        self._held += file.size
        self._asked[file.path] = file, self._parts(file)

    def _parts(self, file: DataFile) -> list[Future[bytes]]:
        if file.size <= REQUEST_BYTES:
            return [self._pool.submit(self.inner.read, file.path)]
        starts = range(0, file.size, REQUEST_BYTES)
        return [
            self._pool.submit(self.inner.read_range, file.path, s, min(REQUEST_BYTES, file.size - s)) for s in starts
        ]


@contextmanager
def open_fetched_store(store: FileStore) -> Iterator[FetchedStore]:
    """Open a store that prefetches files; pending requests are cancelled when the block ends."""
    pool = ThreadPoolExecutor(MAX_REQUESTS, "morrow-fetch")
    try:
        yield FetchedStore(store, pool)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
