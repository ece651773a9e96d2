"""Avro files: their schemas, and a decoder of columns.

Layout (varint = zigzag-encoded long of the Avro specification)::

    magic     4 bytes   "Obj" 0x01
    metadata  map       {varint count, (string key, bytes value) * count}*, varint 0
                        avro.schema (JSON), avro.codec (absent means "null")
    sync     16 bytes
    block*    varint    rows in the block
              varint    bytes of the payload
              payload   the rows, one after the other, compressed with the codec
              sync      the same 16 bytes

Polars decodes Avro in native code but supports neither zstd (Paimon's default) nor maps. So the container is
*re-wrapped*: its blocks are decompressed and joined here, and get a new header whose schema describes the same bytes in
types that Polars reads (`morrow.engine.format.avro`). Python does not process single rows.

Codecs never return more bytes than the caller allows, whatever size the compressed block claims.

Avro's wire format has fewer shapes than its type system, and Polars's decoder supports only part of the format:

==================================  ==============================================================
written                             read as (same bytes)
==================================  ==============================================================
map of V                            array of record {key: string, value: V}
named type, second use              the definition, in place
top-level union ["null", record]    record with the branch number as a first field of type long
enum                                int, the number of the symbol
a record as a column                its members as columns, if requested
any other logical type than below   the plain type
==================================  ==============================================================

The logical types ``date``, ``time-millis``, ``decimal`` and the four timestamps in milli- and microseconds are kept.
"""

from __future__ import annotations

import bz2
import io
import itertools
import json
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import cramjam
import msgspec
import polars as pl
import pyarrow as pa

from morrow.engine.errors import CorruptFile, Unsupported
from morrow.engine.format.types import MAX_DECIMAL_PRECISION

PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
LOGICAL_TYPES = frozenset(
    {
        ("int", "date"),
        ("int", "time-millis"),
        ("bytes", "decimal"),
        ("fixed", "decimal"),
        ("long", "timestamp-millis"),
        ("long", "timestamp-micros"),
        ("long", "local-timestamp-millis"),
        ("long", "local-timestamp-micros"),
    }
)
MAX_DEPTH = 64
MAX_NODES = 100_000
"""Limits of a lowered schema. Named types are expanded at each use, so a schema could grow exponentially."""
MAX_SCHEMA_BYTES = 1 << 24

BRANCH = "__branch"
"""Name of the field for a row's union branch, if the row itself is a nullable record."""


class LoweredSchema(msgspec.Struct, frozen=True):
    """A record schema for Polars: its JSON, the names of its columns, and the column of each row's union branch."""

    json: bytes
    names: tuple[str, ...]
    branch: str | None = None
    row_branch: int = 0


@lru_cache(maxsize=256)
def _lower(schema: bytes, spread: str) -> LoweredSchema:
    try:
        written = json.loads(schema)
    except ValueError as error:  # JSONDecodeError or UnicodeDecodeError
        raise _BadSchemaError(f"the schema is not JSON ({error})") from error
    record, branch = _find_row(written)
    lowered = _Lowering().lowered(record, "", 0)
    if spread:
        lowered["fields"] = _spread(lowered["fields"], spread)
    names = tuple(member["name"] for member in lowered["fields"])
    if not names or len(set(names)) != len(names) or BRANCH in names:
        raise _BadSchemaError("the schema has no columns or two of the same name")
    if branch is None:
        return LoweredSchema(json.dumps(lowered).encode(), names)
    lowered["fields"].insert(0, {"name": BRANCH, "type": "long"})
    return LoweredSchema(json.dumps(lowered).encode(), names, BRANCH, branch)


def _spread(fields: list[Any], name: str) -> list[Any]:
    """Replace the column `name` by its members, if it is a record that is never null."""
    spread: list[Any] = []
    for field in fields:
        is_record = field["name"] == name and isinstance(field["type"], dict) and field["type"]["type"] == "record"
        spread += field["type"]["fields"] if is_record else [field]
    return spread


def lower(schema: bytes, *, where: str, spread: str = "") -> LoweredSchema:
    """Return the schema of a container file in types that Polars reads.

    The members of the column `spread` become columns, if it is a record that is never null.

    Raises:
        CorruptFile: not a schema.
        Unsupported: recursive types, unions other than "null or one type", items of zero bytes.
    """
    try:
        if len(schema) > MAX_SCHEMA_BYTES:
            raise _BadSchemaError(f"the schema has {len(schema)} bytes")
        return _lower(schema, spread)
    except _BadSchemaError as error:
        raise CorruptFile(where, f"bad Avro schema: {error}") from error
    except _NoEquivalentError as error:
        raise Unsupported(str(error), where=where) from error
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFile(where, f"bad Avro schema: {type(error).__name__} {error}") from error


class _BadSchemaError(Exception):
    """The JSON is not an Avro schema."""


class _NoEquivalentError(Exception):
    """An Avro schema that cannot be described to Polars."""


def _find_row(schema: Any) -> tuple[Any, int | None]:
    """Return the record of a row, and its branch number if rows are ["null", record] (Paimon before 1.0)."""
    if isinstance(schema, list):
        if len(schema) == 2 and "null" in schema:
            branch = 1 - schema.index("null")
            return _find_row(schema[branch])[0], branch
        raise _NoEquivalentError("a file whose rows are a union of several types")
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise _NoEquivalentError("an Avro file whose rows are not records")
    return schema, None


class _Lowering:
    """One pass over a schema, with the named types seen so far."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[Any, str]] = {}
        self.open: set[str] = set()
        self.numbers: Iterator[int] = itertools.count()

    def lowered(self, schema: Any, space: str, depth: int) -> Any:
        number = next(self.numbers)
        if depth > MAX_DEPTH or number > MAX_NODES:
            raise _NoEquivalentError("an Avro schema this deep or large")
        if isinstance(schema, list):
            return self.union(schema, space, depth)
        if isinstance(schema, str):
            return schema if schema in PRIMITIVES else self.reference(schema, space, depth)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.lowered(kind, space, depth + 1)
        if kind in ("record", "error"):
            return self.record(schema, space, depth, f"r{number}")
        if kind in ("enum", "fixed"):
            self.named[_qualify_name(schema, space)] = (schema, space)
            return (
                "int"
                if kind == "enum"
                else _lower_logical(schema, {"type": "fixed", "name": f"r{number}", "size": _size(schema)})
            )
        if kind == "array":
            return {"type": "array", "items": self.item(schema["items"], space, depth)}
        if kind == "map":
            members = [("key", "string"), ("value", self.lowered(schema["values"], space, depth + 1))]
            entry = {"type": "record", "name": f"r{number}", "fields": [{"name": n, "type": t} for n, t in members]}
            return {"type": "array", "items": entry}
        if kind in PRIMITIVES:
            return _lower_logical(schema, {"type": kind})
        return self.reference(kind, space, depth)

    def union(self, branches: list[Any], space: str, depth: int) -> Any:
        if len(branches) == 1:
            # A single branch still writes its number before each value; the lowered types lack this prefix.
            raise _NoEquivalentError("an Avro union of one type")
        if len(branches) != 2 or "null" not in branches:
            raise _NoEquivalentError(f"an Avro union of {len(branches)} types")
        return [b if b == "null" else self.lowered(b, space, depth + 1) for b in branches]

    def record(self, schema: Mapping[str, Any], space: str, depth: int, name: str) -> Any:
        full = _qualify_name(schema, space)
        inner = full.rpartition(".")[0]
        self.named[full] = (schema, space)
        self.open.add(full)
        fields = [
            {"name": str(member["name"]), "type": self.lowered(member["type"], inner, depth + 1)}
            for member in schema["fields"]
        ]
        self.open.discard(full)
        return {"type": "record", "name": name, "fields": fields}

    def reference(self, name: str, space: str, depth: int) -> Any:
        full = name if "." in name or not space or f"{space}.{name}" not in self.named else f"{space}.{name}"
        if full in self.open:
            raise _NoEquivalentError(f"the recursive Avro type {full}")
        if full not in self.named:
            raise _NoEquivalentError(f"the Avro type {name!r}")
        definition, defined_in = self.named[full]
        return self.lowered(definition, defined_in, depth + 1)

    def item(self, schema: Any, space: str, depth: int) -> Any:
        lowered = self.lowered(schema, space, depth + 1)
        if _is_empty(lowered):
            # With empty items, a few bytes could claim any number of items.
            raise _NoEquivalentError("an Avro array whose items take no bytes")
        return lowered


def _qualify_name(schema: Mapping[str, Any], space: str) -> str:
    name = str(schema["name"])
    space = schema.get("namespace", space)
    return name if "." in name or not space else f"{space}.{name}"


def _size(schema: Mapping[str, Any]) -> int:
    size = schema["size"]
    if not isinstance(size, int) or size < 0:
        raise _BadSchemaError(f"a fixed of size {size!r}")
    return size


def _lower_logical(schema: Mapping[str, Any], plain: dict[str, Any]) -> Any:
    logical = schema.get("logicalType")
    if (plain["type"], logical) not in LOGICAL_TYPES:
        return plain if plain["type"] == "fixed" else plain["type"]
    if logical != "decimal":
        return {**plain, "logicalType": logical}
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not (isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision):
        raise _BadSchemaError(f"a decimal of precision {precision!r} and scale {scale!r}")
    if precision > MAX_DECIMAL_PRECISION:
        raise _NoEquivalentError(f"an Avro decimal of precision {precision}")
    return {**plain, "logicalType": "decimal", "precision": precision, "scale": scale}


def _is_empty(lowered: Any) -> bool:
    if not isinstance(lowered, dict):
        return False
    if lowered["type"] == "record":
        return all(_is_empty(member["type"]) for member in lowered["fields"])
    return bool(lowered["type"] == "fixed" and lowered["size"] == 0)


MAX_BLOCK_BYTES = 1 << 30
"""Largest decompressed block; Java writers close a block after 64 kB plus one row."""
MAX_XZ_MEMORY = 1 << 27
"""Memory limit of xz: twice the dictionary of its highest level."""
CHUNK_BYTES = 1 << 20
SNAPPY_CRC_LENGTH = 4
SNAPPY_MAX_RATIO = 64
"""Maximum expansion of a snappy stream: its longest copy turns 3 bytes into 64."""

Buffer: TypeAlias = bytes | memoryview


class BadBlockError(Exception):
    """A payload that its codec cannot decompress."""


def decompress_zstandard(raw: memoryview, most: int) -> Buffer:
    # zstd frames of Java writers lack their content size, so the limit is enforced while reading.
    stream = pa.CompressedInputStream(pa.py_buffer(raw), "zstd")
    chunks: list[bytes] = []
    size = 0
    while (chunk := stream.read(CHUNK_BYTES)) and size <= most:
        chunks.append(chunk)
        size += len(chunk)
    return _check_finished(chunks[0] if len(chunks) == 1 else b"".join(chunks), not chunk, most)


def _decompress_snappy(raw: memoryview, most: int) -> Buffer:
    body, crc = raw[:-SNAPPY_CRC_LENGTH], raw[-SNAPPY_CRC_LENGTH:]
    if len(body) == 0:
        raise BadBlockError("shorter than its checksum")
    if cramjam.snappy.decompress_raw_len(body) > min(most, SNAPPY_MAX_RATIO * len(body)):
        raise BadBlockError("claims an impossible length")
    rows = bytes(cramjam.snappy.decompress_raw(body))
    if zlib.crc32(rows) != int.from_bytes(crc, "big"):
        raise BadBlockError("wrong checksum")
    return rows


def _decompress_deflate(raw: memoryview, most: int) -> Buffer:
    inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    return _check_finished(inflater.decompress(raw, most), inflater.eof, most)


def _decompress_bzip2(raw: memoryview, most: int) -> Buffer:
    decompressor = bz2.BZ2Decompressor()
    return _check_finished(decompressor.decompress(raw, most), decompressor.eof, most)


def _decompress_xz(raw: memoryview, most: int) -> Buffer:
    decompressor = lzma.LZMADecompressor(memlimit=MAX_XZ_MEMORY)
    return _check_finished(decompressor.decompress(raw, most), decompressor.eof, most)


def _check_finished(rows: bytes, complete: bool, most: int) -> bytes:
    if not complete or len(rows) > most:
        raise BadBlockError(f"incomplete, or more than {most} bytes")
    return rows


CODECS: dict[str, Callable[[memoryview, int], Buffer]] = {
    "null": lambda raw, _most: raw,
    "deflate": _decompress_deflate,
    "snappy": _decompress_snappy,
    "zstandard": decompress_zstandard,
    "bzip2": _decompress_bzip2,
    "xz": _decompress_xz,
}
"""Functions that decompress a block to a maximum number of bytes, by the name of the codec in the header."""

DAMAGE = (cramjam.DecompressionError, zlib.error, lzma.LZMAError, OSError, EOFError, BadBlockError)
"""The errors that the codecs raise for damaged blocks."""

MAGIC = b"Obj\x01"
SYNC_LENGTH = 16
VARINT_MAX_BYTES = 10
USUAL_BLOCK_BYTES, MAX_RATIO = 1 << 26, 1 << 10
"""Limits of a decompressed data file block, in bytes or as a multiple of its size. Writers close blocks at 64 kB."""
MAX_CONTAINER_BYTES = 1 << 32
"""Largest decompressed file that is re-wrapped in one piece."""

DecodedLimits: TypeAlias = Callable[[int], tuple[int, int]]
"""A function from a file's size in bytes to the maximum number of its rows, and of their bytes."""


class AvroBlock(msgspec.Struct, frozen=True):
    """The location of one block: `rows` records in the `size` compressed bytes from `start`."""

    rows: int
    start: int
    size: int


class AvroContainer(msgspec.Struct, frozen=True):
    """A container parsed down to its blocks; payloads are still compressed inside `data`.

    The members of the column `spread` are read as columns, because Polars can skip unselected columns but not members.
    """

    where: str
    schema: bytes
    codec: str
    blocks: tuple[AvroBlock, ...]
    data: bytes
    spread: str = ""

    def __repr__(self) -> str:
        return f"AvroContainer({self.where!r}, {self.rows} rows in {self.codec})"

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def lowered(self) -> LoweredSchema:
        """The schema in types that Polars reads. Raises `CorruptFile` or `Unsupported`."""
        return lower(self.schema, where=self.where, spread=self.spread)

    def payload(self, block: AvroBlock, most: int = MAX_BLOCK_BYTES) -> Buffer:
        """Return the rows of one block, decompressed to at most `most` bytes. Raises `CorruptFile`."""
        raw = memoryview(self.data)[block.start : block.start + block.size]
        try:
            rows = CODECS[self.codec](raw, most)
        except DAMAGE as error:
            raise CorruptFile(
                self.where, f"the {self.codec} block at byte {block.start} is damaged ({error})"
            ) from error
        if block.rows > len(rows):
            # A row takes at least a byte, so an absurd count is caught before anything is allocated for it.
            raise CorruptFile(
                self.where, f"the block at byte {block.start} claims {block.rows} rows in {len(rows)} bytes"
            )
        return rows


def read_container(data: bytes, *, where: str, spread: str = "") -> AvroContainer:
    """Check the frame of a container and find its blocks, without decompression; `spread` as in `AvroContainer`.

    Raises:
        CorruptFile: not a container, truncated, or a sync marker does not match.
        Unsupported: a codec that is not in `CODECS`.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise CorruptFile(where, f"not an Avro container: it starts with {data[: len(MAGIC)].hex() or 'nothing'}")
    cursor = _Cursor(data, len(MAGIC), where)
    metadata = cursor.metadata()
    sync = cursor.take(SYNC_LENGTH)
    schema = metadata.get("avro.schema")
    if schema is None:
        raise CorruptFile(where, "the Avro header has no schema")
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in CODECS:
        raise Unsupported(f"the Avro codec {codec!r}", where=where, hint=f"known are {', '.join(CODECS)}")
    return AvroContainer(where, schema, codec, tuple(cursor.blocks(sync)), data, spread)


def decompress_container(
    container: AvroContainer, blocks: Sequence[AvroBlock] | None = None, *, most: DecodedLimits | None = None
) -> bytes:
    """Return these blocks (default: all) as one uncompressed block behind a schema that Polars reads."""
    chosen = container.blocks if blocks is None else blocks
    return _build_null_container(
        container, [(sum(block.rows for block in chosen), _decompress_payloads(container, chosen, most=most))]
    )


def decode_frame(
    data: bytes, *, where: str, columns: Iterable[str] | None = None, most: DecodedLimits | None = None
) -> pl.DataFrame:
    """Decode all rows of a container: records become structs, arrays and maps lists (maps of struct{key, value}).

    `most` returns the maximum number of rows, and of their bytes, for a file of a given size in bytes.

    Raises:
        CorruptFile: truncated, damaged, or without one of `columns`.
        Unsupported: the codec, or a schema without Polars equivalent.
    """
    container = read_container(data, where=where)
    return decode(container, decompress_container(container, most=most), container.rows, columns)


def decode_together(
    containers: Sequence[AvroContainer], most: DecodedLimits | None = None, columns: Iterable[str] | None = None
) -> pl.DataFrame:
    """Decode containers with the same schema, in order, into one frame. This is faster for many small containers.

    Each becomes a separate block, so that no row is attributed to another container.

    Raises:
        CorruptFile, Unsupported: as `decode_frame`, but rows that do not follow the schema may be in any container.
    """
    first = containers[0]
    parts: list[tuple[int, list[Buffer]]] = []
    size = 0
    for container in containers:
        payloads = _decompress_payloads(container, container.blocks, size, most)
        parts.append((container.rows, payloads))
        size += sum(map(len, payloads))
    return decode(first, _build_null_container(first, parts), sum(rows for rows, _ in parts), columns)


def decode_batches(
    container: AvroContainer, batch_bytes: int, columns: Iterable[str] | None = None
) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield frames of consecutive blocks (about `batch_bytes` of decompressed rows each), with their row counts."""
    wanted = None if columns is None else tuple(columns)
    payloads: list[Buffer] = []
    rows = size = 0
    for block in container.blocks:
        payloads.append(container.payload(block, max(USUAL_BLOCK_BYTES, MAX_RATIO * block.size)))
        rows, size = rows + block.rows, size + len(payloads[-1])
        if size >= batch_bytes:
            yield rows, decode(container, _build_null_container(container, [(rows, payloads)]), rows, wanted)
            payloads, rows, size = [], 0, 0
    if payloads:
        yield rows, decode(container, _build_null_container(container, [(rows, payloads)]), rows, wanted)


def decode(container: AvroContainer, rewrapped_data: bytes, rows: int, columns: Iterable[str] | None) -> pl.DataFrame:
    """Decode re-wrapped blocks of `container` that hold `rows` rows; without `columns` all columns are decoded."""
    lowered, where = container.lowered, container.where
    wanted = lowered.names if columns is None else tuple(columns)
    if missing := [name for name in wanted if name not in lowered.names]:
        raise CorruptFile(where, f"has no column {missing[0]!r}; its columns are {', '.join(lowered.names)}")
    # Polars counts rows only in columns, and a row's union branch must be checked, so one column is always read.
    decoded = [*wanted, *([lowered.branch] if lowered.branch else [])] or [lowered.names[0]]
    try:
        frame = pl.read_avro(io.BytesIO(rewrapped_data), columns=decoded)
    except pl.exceptions.PanicException as error:
        raise CorruptFile(where, f"its Avro rows do not follow the schema ({error})") from error
    except (pl.exceptions.PolarsError, OSError) as error:
        raise CorruptFile(where, f"its Avro rows do not follow the schema ({error})") from error
    if frame.height != rows:
        raise CorruptFile(where, f"its blocks claim {rows} rows but hold {frame.height}")
    if lowered.branch and not (frame[lowered.branch] == lowered.row_branch).all():
        raise CorruptFile(where, "has a row that is null")
    return frame if tuple(frame.columns) == tuple(wanted) else frame.select(wanted)


# --- the frame of a container ---


class _Cursor(msgspec.Struct):
    """A forward reader of the container's frame; invalid bytes raise `CorruptFile` with their position."""

    data: bytes
    at: int
    where: str

    def varint(self) -> int:
        value = shift = 0
        for byte in self.data[self.at : self.at + VARINT_MAX_BYTES]:
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise CorruptFile(self.where, f"truncated or damaged at byte {self.at}")

    def take(self, length: int) -> bytes:
        start, end = self.at, self.at + length
        if length < 0 or end > len(self.data):
            raise CorruptFile(self.where, f"truncated: {length} bytes at byte {start} of {len(self.data)}")
        self.at = end
        return self.data[start:end]

    def metadata(self) -> dict[str, bytes]:
        entries: dict[str, bytes] = {}
        while count := self.varint():
            if count < 0:  # the size of the map block follows, for readers that skip the block
                count = -count
                self.varint()
            if count > len(self.data):
                raise CorruptFile(self.where, f"the Avro header claims {count} entries")
            for _ in range(count):
                key = self.take(self.varint()).decode("utf-8", "replace")
                # With a damaged count, the end of the map (an empty key) and later bytes would be read as entries.
                if not key.isprintable() or not key or key in entries:
                    raise CorruptFile(self.where, f"the Avro header has a bad or second key {key!r}")
                entries[key] = self.take(self.varint())
        return entries

    def blocks(self, sync: bytes) -> Iterator[AvroBlock]:
        while self.at < len(self.data):
            rows, size, start = self.varint(), self.varint(), self.at
            self.at += size
            if rows < 0 or size < 0 or self.at + SYNC_LENGTH > len(self.data):
                raise CorruptFile(
                    self.where, f"truncated: the block at byte {start} claims {rows} rows in {size} bytes"
                )
            if self.take(SYNC_LENGTH) != sync:
                raise CorruptFile(self.where, f"the block at byte {start} does not end in the sync marker")
            yield AvroBlock(rows, start, size)


def _decompress_payloads(
    container: AvroContainer, blocks: Sequence[AvroBlock], before: int = 0, most: DecodedLimits | None = None
) -> list[Buffer]:
    """Decompress these blocks to at most `most` bytes each, and `MAX_CONTAINER_BYTES` in total including `before`."""
    most_rows, most_bytes = (MAX_CONTAINER_BYTES, MAX_BLOCK_BYTES) if most is None else most(len(container.data))
    if container.rows > most_rows:
        raise CorruptFile(
            container.where, f"{container.rows} rows are more than its {len(container.data)} bytes can hold"
        )
    payloads: list[Buffer] = []
    left = min(MAX_CONTAINER_BYTES - before, MAX_CONTAINER_BYTES if most is None else most_bytes)
    for block in blocks:
        payloads.append(container.payload(block, min(left, most_bytes)))
        left -= len(payloads[-1])
        if left < 0:
            raise CorruptFile(container.where, "decompresses to more than a file of its size can hold")
    return payloads


def _build_null_container(container: AvroContainer, parts: Iterable[tuple[int, Sequence[Buffer]]]) -> bytes:
    """Return an uncompressed container with the schema of `container`: a block for each part (row count, payloads)."""
    sync = bytes(SYNC_LENGTH)  # Any value will do: the lengths of the blocks are given.
    out: list[Buffer] = [
        MAGIC,
        _encode_varint(1),
        _encode_bytes(b"avro.schema"),
        _encode_bytes(container.lowered.json),
        _encode_varint(0),
        sync,
    ]
    for rows, payloads in parts:
        if rows:
            out += [_encode_varint(rows), _encode_varint(sum(map(len, payloads))), *payloads, sync]
    return b"".join(out)


def _encode_bytes(value: bytes) -> bytes:
    return _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    value <<= 1  # zigzag encoding; the number is never negative here
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
