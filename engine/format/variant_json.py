"""JSON texts as columns of VARIANT, without a loop over rows.

All texts are one array of bytes. Quotes that no backslash escapes separate texts from the rest. In the rest, brackets,
colons and commas are tokens, and so are runs of other characters (numbers, ``true``, ``false``, ``null``). The depth of
a token is the number of brackets that are open before it. The values of the deepest level are encoded first.

Rows that do not look like JSON with distinct names are left to `encode_json`, which encodes them or says what is wrong.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from morrow.engine.errors import InvalidArgument
from morrow.engine.format.arrow_buffers import read_validity
from morrow.engine.format.variant import encode_json
from morrow.engine.format.variant_building import (
    build_containers,
    build_metadata,
    build_variants,
    encode_integers,
    encode_texts,
)
from morrow.engine.format.variant_bytes import ByteStrings, scatter

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

QUOTE, BACKSLASH = ord('"'), ord("\\")
OBJECT, ARRAY, END_OBJECT, END_ARRAY, COLON, COMMA, TEXT, LITERAL = range(8)
"""The kinds of tokens."""
MARKS = {"{": OBJECT, "[": ARRAY, "}": END_OBJECT, "]": END_ARRAY, ":": COLON, ",": COMMA}
KINDS = np.full(256, LITERAL, np.int8)
for _mark, _kind in MARKS.items():
    KINDS[ord(_mark)] = _kind
BLANKS = np.zeros(256, np.bool_)
BLANKS[[ord(each) for each in " \t\n\r"]] = True
WHOLE = r"^-?(0|[1-9][0-9]{0,17})$"
MAX_DEPTH = 200
"""Deeper rows are encoded one by one."""
MIN_ROWS = 32
"""Minimum rows to encode them together; fewer are encoded one by one, which takes less time."""


def encode_json_column(array: pa.Array, *, errors: bool = True) -> pa.Array:
    """Return JSON texts as a column of variants; null stays null.

    `errors`: raise for text that is not JSON; otherwise it becomes null.

    Raises `InvalidArgument`: a text is not JSON, or an object has a member twice.
    """
    present = np.flatnonzero(read_validity(array))
    texts = array.take(pa.array(present)).cast(pa.large_string())
    value, metadata, left = _encode_regular(texts) if len(texts) >= MIN_ROWS else _leave_all(texts)
    pairs: list[tuple[bytes, bytes] | tuple[None, None]] = []
    for row in left.tolist():
        try:
            pairs.append(encode_json(texts[row].as_py()))
        except InvalidArgument as error:
            if errors:
                raise InvalidArgument(f"row {present[row]}: {error}") from error
            pairs.append((None, None))
    done = np.setdiff1d(np.arange(len(texts)), left, assume_unique=True)
    columns = []
    for made, place in ((value, 0), (metadata, 1)):
        others = pa.array([pair[place] for pair in pairs], pa.large_binary())
        parts = [(present[done], made.take(pa.array(done))), (present[left], others)]
        columns.append(scatter(parts, len(array), pa.large_binary()))
    return build_variants(*columns)


def _leave_all(texts: pa.Array) -> tuple[pa.Array, pa.Array, Ints]:
    nothing = pa.nulls(len(texts), pa.large_binary())
    return nothing, nothing, np.arange(len(texts))


class _Tokens:
    """The tokens of texts, in their order."""

    def __init__(self, texts: pa.Array) -> None:
        self.strings = strings = ByteStrings.of(texts)
        data = strings.data[: int(strings.ends[-1])]
        self.bad = np.zeros(len(texts), np.bool_)
        """Whether each row is irregular, and left to `encode_json`."""
        quotes = _find_quotes(data)
        rows = self.find_rows(quotes)
        odd = np.bincount(rows, minlength=len(texts)) % 2 == 1
        self.bad |= odd
        quotes = quotes[~odd[rows]]
        opening, closing = quotes[0::2], quotes[1::2]
        inside = np.zeros(len(data) + 1, np.int8)
        inside[opening] += 1
        np.add.at(inside, closing + 1, -1)
        in_text = np.cumsum(inside[:-1], dtype=np.int8) > 0
        kinds = KINDS[data]
        plain = ~in_text & ~BLANKS[data]
        is_literal = plain & (kinds == LITERAL)
        begins = is_literal.copy()
        begins[1:] &= ~is_literal[:-1]
        begins[strings.starts[strings.starts < len(data)]] |= is_literal[strings.starts[strings.starts < len(data)]]
        literals = np.flatnonzero(begins)
        last = is_literal.copy()
        last[:-1] &= ~is_literal[1:]
        ends_of_rows = strings.ends[strings.ends > 0] - 1
        last[ends_of_rows] |= is_literal[ends_of_rows]
        literal_ends = np.flatnonzero(last) + 1
        marks = np.flatnonzero(plain & (kinds != LITERAL))
        at = np.concatenate([marks, opening, literals])
        ends = np.concatenate([marks + 1, closing + 1, literal_ends])
        kind = np.concatenate([kinds[marks], np.full(len(opening), TEXT), np.full(len(literals), LITERAL)])
        order = np.argsort(at, kind="stable")
        self.at, self.ends, self.kinds = at[order], ends[order], kind[order].astype(np.int8)
        self.rows = self.find_rows(self.at)
        controls = np.flatnonzero(in_text & (data < ord(" ")))
        self.bad[self.find_rows(controls)] = True

    def find_rows(self, at: Ints) -> Ints:
        """Return the row of each of these byte positions."""
        return np.searchsorted(self.strings.ends, at, side="right")

    def keep(self, chosen: Bools) -> None:
        """Drop all tokens except the chosen ones."""
        self.at, self.ends, self.rows = self.at[chosen], self.ends[chosen], self.rows[chosen]
        self.kinds = self.kinds[chosen]


def _find_quotes(data: npt.NDArray[np.uint8]) -> Ints:
    """Return the positions of quotes that no backslash escapes."""
    quotes = np.flatnonzero(data == QUOTE)
    is_backslash = data == BACKSLASH
    if not is_backslash.any() or not len(quotes):
        return quotes
    others = np.maximum.accumulate(np.where(is_backslash, -1, np.arange(len(data))))
    before = np.where(quotes > 0, others[np.maximum(quotes - 1, 0)], -1)
    return np.asarray(quotes[(quotes - 1 - before) % 2 == 0])


def _encode_regular(texts: pa.Array) -> tuple[pa.Array, pa.Array, Ints]:
    """Return values and metadata of rows, and the rows that are left to `encode_json` (their bytes mean nothing)."""
    tokens = _Tokens(texts)
    bad = tokens.bad
    before = _measure(tokens, len(texts))
    if bad.any():
        tokens.keep(~bad[tokens.rows])
        before = _measure(tokens, len(texts))
    parents = _find_parents(tokens, before)
    is_key = _check_grammar(tokens, before, parents, bad)
    if bad.any():
        tokens.keep(~bad[tokens.rows])
        before = _measure(tokens, len(texts))
        parents = _find_parents(tokens, before)
        is_key = _check_grammar(tokens, before, parents, bad)
    leaves, wrong = _encode_scalars(tokens, is_key)
    bad[wrong] = True
    numbers, metadata, code = _number_names(tokens, is_key, texts)
    value = _build_levels(tokens, before, parents, is_key, leaves, numbers, code, bad)
    roots = np.flatnonzero((before == 0) & ((tokens.kinds <= ARRAY) | (tokens.kinds >= TEXT)))
    made = scatter([(tokens.rows[roots], value)], len(texts), pa.large_binary())
    return made, metadata, np.flatnonzero(bad)


def _measure(tokens: _Tokens, rows: int) -> Ints:
    """Return how many brackets are open before each token; for closing brackets, before their opening.

    Marks rows whose brackets do not balance, or that are too deep.
    """
    steps = np.where(tokens.kinds <= ARRAY, 1, 0) - ((tokens.kinds == END_OBJECT) | (tokens.kinds == END_ARRAY))
    after = np.cumsum(steps)
    first = np.searchsorted(tokens.rows, np.arange(rows))
    last = np.searchsorted(tokens.rows, np.arange(rows), side="right")
    bounds = np.concatenate([[0], after])
    tokens.bad |= (bounds[last] != bounds[first]) | (first == last)
    after = after - bounds[first][tokens.rows]
    before = np.where(steps < 0, after, after - steps)
    tokens.bad[tokens.rows[(after < 0) | (after > MAX_DEPTH)]] = True
    return np.asarray(before)


def _find_parents(tokens: _Tokens, before: Ints) -> Ints:
    """Return the opening bracket around each token (-1: none); a closing bracket counts like its opening one."""
    parents = np.full(len(before), -1)
    opens = np.flatnonzero(tokens.kinds <= ARRAY)
    levels = before[opens]
    for level in range(1, int(before.max(initial=0)) + 1):
        outer = opens[levels == level - 1]
        inner = np.flatnonzero(before == level)
        if len(outer):
            parents[inner] = outer[np.maximum(np.searchsorted(outer, inner) - 1, 0)]
    return parents


def _check_grammar(tokens: _Tokens, before: Ints, parents: Ints, bad: Bools) -> Bools:
    """Return which tokens are names of members; mark rows with a token in the wrong place."""
    kinds, rows = tokens.kinds, tokens.rows
    size = len(kinds)
    if not size:
        return np.zeros(0, np.bool_)
    previous = np.concatenate([[-1], kinds[:-1]])
    begins = np.concatenate([[True], rows[1:] != rows[:-1]])
    previous[begins] = -1
    in_object = (parents >= 0) & (kinds[parents] == OBJECT)
    is_closing = (kinds == END_OBJECT) | (kinds == END_ARRAY)
    is_value = (kinds <= ARRAY) | (kinds >= TEXT)
    after_start = (previous == OBJECT) | (previous == ARRAY) | (previous == COMMA)
    is_key = in_object & (kinds == TEXT) & ((previous == OBJECT) | (previous == COMMA))
    after_key = np.concatenate([[False], is_key[:-1]])
    after_value = (previous >= TEXT) | (previous == END_OBJECT) | (previous == END_ARRAY)
    after_value &= ~after_key
    good = np.zeros(size, np.bool_)
    good |= is_key
    good |= (kinds == COLON) & after_key & in_object
    good |= (
        is_value
        & ~is_key
        & np.where(in_object, previous == COLON, np.where(parents >= 0, after_start & (previous != OBJECT), begins))
    )
    good |= (kinds == COMMA) & after_value & (parents >= 0)
    # A closing bracket matches the last bracket of its depth, and follows a value or that bracket.
    brackets = np.flatnonzero((kinds <= ARRAY) | is_closing)
    ordered = brackets[np.lexsort((brackets, before[brackets], rows[brackets]))]
    partner = np.concatenate([[-1], ordered[:-1]])
    matches = np.zeros(size, np.bool_)
    matches[ordered] = (partner >= 0) & (kinds[partner] == kinds[ordered] - END_OBJECT)
    good |= is_closing & matches & (after_value | (previous == kinds - END_OBJECT))
    bad[rows[~good]] = True
    return np.asarray(is_key)


def _encode_scalars(tokens: _Tokens, is_key: Bools) -> tuple[tuple[Ints, pa.Array], Ints]:
    """Return the tokens that are texts or literals with their bytes, and the rows with an invalid one."""
    import pyarrow.compute as pc

    texts = np.flatnonzero((tokens.kinds == TEXT) & ~is_key)
    values, wrong = _read_texts(tokens, texts)
    literals = np.flatnonzero(tokens.kinds == LITERAL)
    lengths = tokens.ends[literals] - tokens.at[literals]
    words = tokens.strings.slices(tokens.at[literals], lengths, pa.large_string())
    whole = pc.match_substring_regex(words, WHOLE).to_numpy(zero_copy_only=False)
    integers = encode_integers(words.filter(pa.array(whole)).cast(pa.int64()).to_numpy(zero_copy_only=False))
    others = words.filter(pa.array(~whole)).dictionary_encode()
    made: list[bytes | None] = []
    for word in others.dictionary.to_pylist():
        try:
            made.append(encode_json(word)[0])
        except InvalidArgument:
            made.append(None)
    rest = pa.array(made, pa.large_binary()).take(others.indices)
    wrong_words = literals[~whole][np.asarray(rest.is_null().to_numpy(zero_copy_only=False), np.bool_)]
    parts = [(texts, encode_texts(values)), (literals[whole], integers), (literals[~whole], rest.fill_null(b"\0"))]
    places = np.concatenate([place for place, _ in parts])
    order = np.argsort(places, kind="stable")
    blobs = pa.concat_arrays([each for _, each in parts]).take(pa.array(order))
    return (places[order], blobs), np.concatenate([wrong, tokens.rows[wrong_words]])


def _read_texts(tokens: _Tokens, chosen: Ints) -> tuple[pa.Array, Ints]:
    """Return texts without quotes and escapes, and the rows with an invalid escape."""
    import pyarrow.compute as pc

    starts = tokens.at[chosen] + 1
    found = tokens.strings.slices(starts, tokens.ends[chosen] - 1 - starts, pa.large_string())
    escaped = pc.match_substring(found, "\\").to_numpy(zero_copy_only=False)
    if not escaped.any():
        return found, np.zeros(0, np.int64)
    some = found.filter(pa.array(escaped)).dictionary_encode()
    made = [_unescape(each) for each in some.dictionary.to_pylist()]
    texts = pa.array(made, pa.large_string()).take(some.indices)
    wrong = np.asarray(texts.is_null().to_numpy(zero_copy_only=False), np.bool_)
    parts = [
        (np.flatnonzero(~escaped), found.filter(pa.array(~escaped))),
        (np.flatnonzero(escaped), texts.fill_null("")),
    ]
    return scatter(parts, len(found), pa.large_string()), tokens.rows[chosen[escaped][wrong]]


def _unescape(text: str) -> str | None:
    try:
        found = json.loads(f'"{text}"')
        found.encode()
    except (ValueError, UnicodeEncodeError):
        return None
    return str(found)


def _number_names(tokens: _Tokens, is_key: Bools, texts: pa.Array) -> tuple[Ints, pa.Array, Ints]:
    """Return for each name its number in its row, the metadata of all rows, and for each name a code that sorts names.

    Names are numbered as they first occur, as in Java.
    """
    keys = np.flatnonzero(is_key)
    names, wrong = _read_texts(tokens, keys)
    tokens.bad[wrong] = True
    encoded = names.dictionary_encode()
    codes = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
    pairs = tokens.rows[keys] * max(len(encoded.dictionary), 1) + codes
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    owners = tokens.rows[keys][np.sort(first)]
    counts = np.bincount(owners, minlength=len(texts))
    numbers = rank[inverse.ravel()] - (np.cumsum(counts) - counts)[tokens.rows[keys]]
    metadata = build_metadata(counts, names.take(pa.array(np.sort(first))))
    distinct = [name.encode() for name in encoded.dictionary.to_pylist()]
    by_bytes = sorted(range(len(distinct)), key=distinct.__getitem__)
    places = np.empty(len(by_bytes), np.int64)
    places[by_bytes] = np.arange(len(by_bytes))
    return numbers, metadata, places[codes] if len(codes) else codes


def _build_levels(
    tokens: _Tokens,
    before: Ints,
    parents: Ints,
    is_key: Bools,
    leaves: tuple[Ints, pa.Array],
    numbers: Ints,
    codes: Ints,
    bad: Bools,
) -> pa.Array:
    """Return the bytes of the values of all rows, built from the deepest level on; mark rows with a name twice."""
    kinds = tokens.kinds
    key_place = np.cumsum(is_key) - 1
    is_value = ((kinds <= ARRAY) | (kinds >= TEXT)) & ~is_key
    places, blobs = leaves
    below: pa.Array = pa.array([], pa.large_binary())
    inner = np.zeros(0, np.int64)
    for level in range(int(before.max(initial=0)), -1, -1):
        values = np.flatnonzero(is_value & (before == level))
        opens = values[kinds[values] <= ARRAY]
        owners = np.searchsorted(opens, parents[inner]) if len(opens) else np.zeros(0, np.int64)
        counts = np.bincount(owners, minlength=len(opens))
        is_object = kinds[opens] == OBJECT
        in_object = is_object[owners] if len(owners) else np.zeros(0, np.bool_)
        keys = key_place[inner[in_object] - 2]
        ids, order = np.zeros(len(inner), np.int64), np.arange(len(inner))
        code = np.arange(len(inner))
        ids[in_object], code[in_object] = numbers[keys], codes[keys]
        order = np.lexsort((code, owners))
        twice = (owners[order][1:] == owners[order][:-1]) & (code[order][1:] == code[order][:-1])
        twice &= in_object[order][1:]
        bad[tokens.rows[inner[order[1:][twice]]]] = True
        made = build_containers(counts, below, is_object, ids, order)
        mine = np.flatnonzero(np.isin(places, values, assume_unique=True))
        parts = [
            (np.searchsorted(values, opens), made),
            (np.searchsorted(values, places[mine]), blobs.take(pa.array(mine))),
        ]
        below, inner = scatter(parts, len(values), pa.large_binary()), values
    return below
